import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
import java.util.zip.*;

/** Threads, exceptions, garbage, native buffers and compression under the JIT. Prints the same in every run. */
public class Heap {
    record Thing(String name, int[] values) {}

    static long work(int rounds, long seed) {
        Map<Integer, List<Thing>> all = new HashMap<>();
        long sum = seed;
        for (int round = 0; round < rounds; round++) {
            List<Thing> things = new ArrayList<>();
            for (int n = 0; n < 200; n++) {
                things.add(new Thing("thing " + n, new int[n % 17]));
            }
            for (Thing thing : things) {
                sum = (sum * 31 + thing.values().length + thing.name().length()) % 1000003;
            }
            all.put(round % 64, things);
            try {
                if (round % 3 == 0) {
                    throw new IllegalStateException("round " + round);
                }
            } catch (IllegalStateException exception) {
                sum += exception.getMessage().length();
            }
        }
        return sum;
    }

    static int deep(int n) {
        return n + deep(n + 1);
    }

    static long pack() throws DataFormatException {
        byte[] big = new byte[300000];
        for (int n = 0; n < big.length; n++) {
            big[n] = (byte) (n * n >> 5);
        }
        long sum = 0;
        for (int level = 1; level <= 9; level++) {
            Deflater deflater = new Deflater(level);
            deflater.setInput(big);
            deflater.finish();
            byte[] packed = new byte[big.length + 1000];
            int length = deflater.deflate(packed);
            deflater.end();
            Inflater inflater = new Inflater();
            inflater.setInput(packed, 0, length);
            sum += inflater.inflate(new byte[big.length]);
            inflater.end();
        }
        return sum;
    }

    public static void main(String[] arguments) throws Exception {
        System.out.println("main " + work(3000, 1));
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<Long>> futures = new ArrayList<>();
        for (int n = 0; n < 8; n++) {
            long seed = n;
            futures.add(pool.submit(() -> work(1000, seed)));
        }
        for (Future<Long> future : futures) {
            System.out.println("pool " + future.get());
        }
        pool.shutdown();
        System.out.println("stream " + IntStream.range(0, 100000).parallel().mapToLong(n -> n % 7).sum());
        long bytes = 0;
        for (int n = 1; n < 2000; n++) {
            bytes += ByteBuffer.allocateDirect(n * 16).capacity();
        }
        System.out.println("direct " + bytes);
        System.out.println("zip " + pack());
        try {
            deep(0);
        } catch (StackOverflowError error) {
            System.out.println("stack overflow");
        }
        try {
            Object nothing = null;
            nothing.hashCode();
        } catch (NullPointerException exception) {
            System.out.println("null pointer");
        }
        for (int n = 0; n < 200; n++) {
            Thread thread = new Thread(() -> work(2, 1));
            thread.start();
            thread.join();
        }
        System.gc();
        Process child = new ProcessBuilder("sh", "-c", "echo child; exit 5").redirectErrorStream(true).start();
        System.out.print(new String(child.getInputStream().readAllBytes()));
        System.out.println("ended " + child.waitFor());
        Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println("hook")));
        System.exit(4);
    }
}
