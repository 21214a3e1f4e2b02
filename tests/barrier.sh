#!/usr/bin/env bash
# Whether an outcome is on disk before it is handed on, from the system calls of a real process. Needs strace.
# The check itself is tests/barrier.rs; this only insists on it, and shows its figures.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v strace >/dev/null; then
    echo "barrier.sh: strace is not installed, and without it there is nothing to see; install it, as with: apt-get install strace" >&2
    exit 1
fi
DURABLY_BARRIER=1 exec cargo test --quiet --workspace --all-features --test barrier -- --nocapture --test-threads 1
