//! The module that node runs: each export returns how many timers fired, and a fault is a trap.

#![no_std]

#[global_allocator]
static HEAP: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

#[panic_handler]
fn trap(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}

#[unsafe(no_mangle)]
pub extern "C" fn wheel(timers: u32) -> u32 {
    bare::wheel(timers).fired
}

#[unsafe(no_mangle)]
pub extern "C" fn queue(timers: u32) -> u32 {
    bare::queue(timers).fired
}
