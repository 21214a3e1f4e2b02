#!/usr/bin/env bash
# Counts the instructions of one live step in memory and of one replayed step, and compares them with what is on record
# in instructions.txt: more than 5 % above fails, and less than that asks for a new record. Counts do not depend on how
# busy a machine is; they do on the compiler, and on the processor that valgrind shows (it has no SHA instructions, so that
# hashing costs more here than it does in truth).
#
# tests/instructions.sh            compare
# tests/instructions.sh --record   write down what was counted
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --quiet --release --bin counted -p tests
counted=${CARGO_TARGET_DIR:-target}/release/counted
record=tests/instructions.txt

# count live|replay N: all instructions of the process
count() {
    valgrind --tool=none --log-file=/dev/null true # is it there, and does it run?
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$counted" "$1" "$2" 2>&1 |
        sed -n 's/.*Collected : *\([0-9]*\).*/\1/p'
}

few_live=$(count live 1000)
many_live=$(count live 3000)
few_both=$(count replay 1000)
many_both=$(count replay 3000)
live=$(((many_live - few_live) / 2000))
replayed=$(((many_both - few_both) / 2000 - live))

if [[ ${1:-} == --record ]]; then
    printf 'live %d\nreplayed %d\n' "$live" "$replayed" >"$record"
    cat "$record"
    exit
fi
failed=0
# compare WHAT COUNTED
compare() {
    local known
    known=$(awk -v what="$1" '$1 == what { print $2 }' "$record")
    printf 'one step, %-9s %6d instructions, on record %6d\n' "$1:" "$2" "$known"
    if (($2 * 100 > known * 105)); then
        echo "a step that is $1 takes more than 5 % more instructions than on record: find out why, or record it with --record" >&2
        failed=1
    elif (($2 * 100 < known * 95)); then
        echo "fewer than on record: record it with --record"
    fi
}
compare live "$live"
compare replayed "$replayed"
exit $failed
