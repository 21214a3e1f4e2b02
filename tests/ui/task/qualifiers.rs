use durably::task;

#[task]
async unsafe fn no_one_checks() -> u8 {
    0
}

#[task]
async extern "C" fn from_c() -> u8 {
    0
}

#[task(blocking)]
const fn constant() -> u8 {
    0
}

fn main() {}
