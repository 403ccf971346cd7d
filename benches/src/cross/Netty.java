// Netty's HashedWheelTimer under the load of `throughput.rs`: each producer keeps timers of 10 to 30 s in flight,
// cancels the oldest and schedules another. Prints one metric per line: name, tab, value.
//
//   java -cp netty-common.jar Netty.java PRODUCERS IN_FLIGHT WATCH_MS SAMPLES

import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.TimerTask;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

public final class Netty {
    // Ticks of a millisecond, and as many buckets as the longest delay has ticks: a revolution longer than all of them.
    static final HashedWheelTimer TIMER =
        new HashedWheelTimer(Executors.defaultThreadFactory(), 1, TimeUnit.MILLISECONDS, 32768, false);
    static final TimerTask TASK = timeout -> {};
    // The compilers of the virtual machine are through by then.
    static final long WARM_UP_MS = 3000;
    static final int PIECE = 512;

    static final class Producer extends Thread {
        final Timeout[] ring;
        final long watchNs;
        final long[] samples;
        final CyclicBarrier barrier;
        long state;
        int oldest;
        long pairs;
        long wallNs;

        Producer(int number, int inFlight, long watchNs, int samples, CyclicBarrier barrier) {
            this.ring = new Timeout[inFlight];
            this.watchNs = watchNs;
            this.samples = new long[samples];
            this.barrier = barrier;
            this.state = 0x9E3779B97F4A7C15L + number;
        }

        long delayMs() {
            state ^= state << 13;
            state ^= state >>> 7;
            state ^= state << 17;
            return 10_000 + Long.remainderUnsigned(state, 20_000);
        }

        void pair() {
            ring[oldest].cancel();
            ring[oldest] = TIMER.newTimeout(TASK, delayMs(), TimeUnit.MILLISECONDS);
            oldest = oldest + 1 == ring.length ? 0 : oldest + 1;
        }

        long runFor(long ns) {
            long start = System.nanoTime();
            long done = 0;
            do {
                for (int n = 0; n < PIECE; n++) {
                    pair();
                }
                done += PIECE;
            } while (System.nanoTime() - start < ns);
            return done;
        }

        @Override
        public void run() {
            try {
                for (int n = 0; n < ring.length; n++) {
                    ring[n] = TIMER.newTimeout(TASK, delayMs(), TimeUnit.MILLISECONDS);
                }
                runFor(WARM_UP_MS * 1_000_000);
                barrier.await();
                long start = System.nanoTime();
                pairs = runFor(watchNs);
                wallNs = System.nanoTime() - start;
                barrier.await();
                for (int n = 0; n < samples.length; n++) {
                    ring[oldest].cancel();
                    long delay = delayMs();
                    long before = System.nanoTime();
                    ring[oldest] = TIMER.newTimeout(TASK, delay, TimeUnit.MILLISECONDS);
                    samples[n] = System.nanoTime() - before;
                    oldest = oldest + 1 == ring.length ? 0 : oldest + 1;
                }
            } catch (Exception error) {
                error.printStackTrace();
                System.exit(1);
            }
        }
    }

    static long cpuNs() {
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        return system.getProcessCpuTime();
    }

    public static void main(String[] args) throws Exception {
        int producers = Integer.parseInt(args[0]);
        int samples = Integer.parseInt(args[3]) / producers;
        long[] cpu = new long[1];
        // Between its two calls all producers run.
        CyclicBarrier barrier = new CyclicBarrier(producers, () -> cpu[0] = cpuNs() - cpu[0]);
        Producer[] all = new Producer[producers];
        for (int n = 0; n < producers; n++) {
            long watchNs = Long.parseLong(args[2]) * 1_000_000;
            all[n] = new Producer(n, Integer.parseInt(args[1]), watchNs, samples, barrier);
            all[n].start();
        }
        long[] schedules = new long[samples * producers];
        double perSecond = 0;
        long pairs = 0;
        for (int n = 0; n < producers; n++) {
            all[n].join();
            perSecond += all[n].pairs * 1e9 / all[n].wallNs;
            pairs += all[n].pairs;
            System.arraycopy(all[n].samples, 0, schedules, n * samples, samples);
        }
        Arrays.sort(schedules);
        System.out.println("M pairs/s\t" + perSecond / 1e6);
        System.out.println("CPU ns/pair\t" + (double) cpu[0] / pairs);
        System.out.println("p50 ns\t" + schedules[schedules.length / 2]);
        System.out.println("p99 ns\t" + schedules[(int) (schedules.length * 0.99)]);
        System.out.println("p99.9 ns\t" + schedules[(int) (schedules.length * 0.999)]);
        System.exit(0);
    }
}
