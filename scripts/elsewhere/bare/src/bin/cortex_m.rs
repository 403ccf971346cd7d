//! The program of the Cortex-M: virtual time first, then the processor's own timer with sleeps in between.

#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use cortex_m::peripheral::syst::SystClkSource;
use cortex_m_rt::{entry, exception};
use cortex_m_semihosting::{debug, hprintln};
use embedded_alloc::LlffHeap;
use panic_semihosting as _;
use tickwheel_core::{LocalTimer, Time};

#[global_allocator]
static HEAP: LlffHeap = LlffHeap::empty();

/// Milliseconds since the processor's timer was started.
static MILLIS: AtomicU32 = AtomicU32::new(0);

#[exception]
fn SysTick() {
    MILLIS.fetch_add(1, Ordering::Relaxed);
}

fn now() -> Time {
    Time::ZERO + Duration::from_millis(MILLIS.load(Ordering::Relaxed).into())
}

/// Fires timers on the processor's own time, and sleeps until it is time to look.
fn on_its_own_time(timers: u32) -> u32 {
    let mut timer = LocalTimer::new(Duration::from_millis(1)).expect("a tick of a millisecond");
    for id in 0..timers {
        let delay = Duration::from_millis(u64::from(id % 10) * 20 + 5);
        timer.schedule(now(), delay, now() + delay).expect("memory for a timer");
    }
    let mut fired = 0;
    while timer.poll_timeout(now()).is_some() {
        let now = now();
        timer.poll(now, |expired| {
            assert!(expired.payload <= now, "a timer fired early");
            fired += 1;
        });
        cortex_m::asm::wfi();
    }
    fired
}

#[entry]
fn main() -> ! {
    // SAFETY: once, before the first allocation.
    unsafe {
        embedded_alloc::init!(HEAP, 1024 * 1024);
    }
    hprintln!("LocalTimer: {:?}", bare::wheel(5000));
    hprintln!("one delay: {:?}", bare::queue(5000));
    let mut systick = cortex_m::Peripherals::take().expect("taken once").SYST;
    systick.set_clock_source(SystClkSource::Core);
    // The board runs at 25 MHz.
    systick.set_reload(25_000_000 / 1000 - 1);
    systick.clear_current();
    systick.enable_counter();
    systick.enable_interrupt();
    hprintln!("LocalTimer between interrupts: {} fired in {:?}", on_its_own_time(200), now());
    debug::exit(debug::EXIT_SUCCESS);
    panic!("the emulator goes on");
}
