//! Asks what this system, its filter or its emulator refuses. A test that needs a refused call says so and is skipped.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::thread::{sched_getaffinity, sched_setaffinity};

const PIECE: usize = 4 << 20;

fn is_there(there: bool, missing: &str) -> bool {
    if !there {
        eprintln!("skipped: the system refuses {missing}");
    }
    there
}

/// Runs `test` with a new piece of memory, full of sevens.
fn with_memory(test: impl FnOnce(*mut u8) -> bool) -> bool {
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new private mapping; it is written within its bounds and unmapped after its last use.
    unsafe {
        let none = std::ptr::null_mut();
        let place = mmap_anonymous(none, PIECE, rights, MapFlags::PRIVATE).unwrap();
        place.cast::<u8>().write_bytes(7, PIECE);
        let answer = test(place.cast());
        munmap(place, PIECE).unwrap();
        answer
    }
}

/// Whether a thread may set its own mask.
pub(crate) fn pins_threads() -> bool {
    let may = sched_getaffinity(None).is_ok_and(|mask| sched_setaffinity(None, &mask).is_ok());
    is_there(may, "to pin threads")
}

/// Whether pages that are given back read as zero.
pub(crate) fn takes_pages_back() -> bool {
    let takes = with_memory(|place| {
        // SAFETY: our own memory, which is read afterwards as what the system makes of it.
        unsafe {
            madvise(place.cast(), PIECE, Advice::LinuxDontNeed).is_ok()
                && place.read_volatile() == 0
        }
    });
    is_there(takes, "to take pages back")
}

/// Whether the mapping around a place has been advised to lie in huge pages; `None` where the system refuses the
/// advice, or does not tell.
pub(crate) fn prefers_huge(place: *const u8) -> Option<bool> {
    let tells = with_memory(|place| {
        // SAFETY: an advice about our own memory.
        let advised = unsafe { madvise(place.cast(), PIECE, Advice::LinuxHugepage) };
        advised.is_ok() && is_marked_huge(place) == Some(true)
    });
    is_there(tells, "huge pages, or does not tell of them").then(|| is_marked_huge(place))?
}

fn is_marked_huge(place: *const u8) -> Option<bool> {
    let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
    let contains = |line: &&str| {
        let (start, rest) = line.split_once('-').unwrap_or_default();
        let end = rest.split(' ').next().unwrap_or_default();
        let number = |text| usize::from_str_radix(text, 16).unwrap_or(0);
        (number(start)..number(end)).contains(&place.addr())
    };
    let flags = maps
        .lines()
        .skip_while(|line| !contains(line))
        .find_map(|line| line.strip_prefix("VmFlags:"));
    Some(flags?.split(' ').any(|flag| flag == "hg"))
}
