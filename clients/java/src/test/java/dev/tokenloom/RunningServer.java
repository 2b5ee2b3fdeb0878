package dev.tokenloom;

import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.health.v1.HealthCheckRequest;
import io.grpc.health.v1.HealthCheckResponse.ServingStatus;
import io.grpc.health.v1.HealthGrpc;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A real server on loopback with small models: "tiny" (the default) and "gpt2". */
final class RunningServer implements AutoCloseable {
    private static final Path ROOT = Path.of("..", "..").toAbsolutePath().normalize();
    private static final Pattern PORT = Pattern.compile("\"port\": (\\d+)");

    private final Process process;
    private final String target;

    private RunningServer(Process process, String target) {
        this.process = process;
        this.target = target;
    }

    static RunningServer start() {
        Path models = ROOT.resolve(Path.of("tests", "data", "models"));
        String python = Optional.ofNullable(System.getenv("TOKENLOOM_PYTHON")).orElse("python3");
        List<String> command = List.of(
                python, "-m", "service.cli", "serve", "--port", "0", "--threads", "1", "--lame-duck", "0",
                "--model-directory", models.toString(), "--load", "tiny=tiny-llama-lora", "--load", "gpt2=tiny-gpt2",
                "--default-model", "tiny",
                "--adapter-directory", models.resolve(Path.of("tiny-llama-lora", "adapters")).toString());
        try {
            Process process = new ProcessBuilder(command)
                    .directory(ROOT.toFile())
                    .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                    .start();
            RunningServer server = new RunningServer(process, "127.0.0.1:" + port(process.errorReader()));
            server.awaitHealthy();
            return server;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    String target() {
        return target;
    }

    @Override
    public void close() {
        process.toHandle().destroy(); // Process.destroy would close the log that is being read.
        try {
            if (!process.waitFor(30, TimeUnit.SECONDS)) {
                process.destroyForcibly();
                throw new IllegalStateException("the server did not end when it was asked to");
            }
        } catch (InterruptedException interrupted) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }

    /** The free port that the server took, from its log. The rest of the log is read away: a full pipe would block it. */
    private static String port(BufferedReader log) throws IOException {
        StringBuilder read = new StringBuilder();
        for (String line = log.readLine(); line != null; line = log.readLine()) {
            Matcher port = PORT.matcher(line);
            if (line.contains("\"serving\"") && port.find()) {
                Thread drain = new Thread(() -> log.lines().forEach(rest -> {}), "server-log");
                drain.setDaemon(true);
                drain.start();
                return port.group(1);
            }
            read.append(line).append('\n');
        }
        throw new IllegalStateException("the server ended before it served:\n" + read);
    }

    private void awaitHealthy() {
        ManagedChannel channel = Grpc.newChannelBuilder(target, InsecureChannelCredentials.create()).build();
        try {
            HealthGrpc.newBlockingStub(channel)
                    .withDeadlineAfter(60, TimeUnit.SECONDS)
                    .withWaitForReady()
                    .watch(HealthCheckRequest.getDefaultInstance())
                    .forEachRemaining(health -> {
                        if (health.getStatus() == ServingStatus.SERVING) {
                            throw new Healthy();
                        }
                    });
        } catch (Healthy reached) {
            return;
        } finally {
            channel.shutdownNow();
        }
        throw new IllegalStateException("the server ended its health watch");
    }

    private static final class Healthy extends RuntimeException {
        private static final long serialVersionUID = 1L;
    }
}
