package dev.tokenloom;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** The examples run, each as the program it is. */
@ExtendWith(ServerExtension.class)
class ExamplesTest {
    private final RunningServer server;
    private final TokenloomClient client;

    ExamplesTest(RunningServer server, TokenloomClient client) {
        this.server = server;
        this.client = client;
    }

    @Test
    void chatAnswersEachLine() throws Exception {
        List<String> said = run("Chat", "hi\nand then?\n\n");
        assertEquals(3, said.stream().filter(line -> line.startsWith("You: ")).count(), said.toString());
        assertEquals(List.of(), client.listSessions());
    }

    @Test
    void batchTellsEachRow() throws Exception {
        List<String> lines = run("Batch", "");
        assertTrue(lines.get(0).startsWith("The capital of France is|"), lines.toString());
        assertTrue(lines.stream().anyMatch(line -> line.startsWith("def add(a, b):|")), lines.toString());
    }

    @Test
    void rewindTellsThreeEndings() throws Exception {
        List<String> lines = run("Rewind", "");
        for (String start : List.of("1:", "2:", "3:")) {
            assertEquals(1, lines.stream().filter(line -> line.startsWith(start)).count(), lines.toString());
        }
    }

    @Test
    void logitsAreSteered() throws Exception {
        List<String> lines = run("SteerLogits", "");
        assertTrue(lines.stream().anyMatch(line -> line.startsWith("without the likeliest:")), lines.toString());
        assertTrue(lines.stream().anyMatch(line -> line.startsWith("without repetition:")), lines.toString());
    }

    private List<String> run(String example, String input) throws IOException, InterruptedException {
        Path java = Path.of(System.getProperty("java.home"), "bin", "java");
        Process process = new ProcessBuilder(
                        java.toString(), "-cp", System.getProperty("java.class.path"), example, server.target())
                .redirectErrorStream(true)
                .start();
        try (var stdin = process.outputWriter()) {
            stdin.write(input);
        }
        List<String> lines = process.inputReader().lines().toList();
        assertTrue(process.waitFor(60, TimeUnit.SECONDS));
        assertEquals(0, process.exitValue(), String.join("\n", lines));
        return lines;
    }
}
