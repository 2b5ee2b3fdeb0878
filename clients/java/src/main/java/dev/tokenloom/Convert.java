package dev.tokenloom;

import com.google.protobuf.Timestamp;
import dev.tokenloom.v1.Adapter;
import dev.tokenloom.v1.GenerateTokensResponse;
import dev.tokenloom.v1.GetServerInfoResponse;
import dev.tokenloom.v1.Model;
import dev.tokenloom.v1.RowTokens;
import dev.tokenloom.v1.StepEvent;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;

/** Replies of the wire to this package's values. */
final class Convert {
    private Convert() {}

    static Duration duration(com.google.protobuf.Duration duration) {
        return Duration.ofSeconds(duration.getSeconds(), duration.getNanos());
    }

    static int[] ints(List<Integer> values) {
        return values.stream().mapToInt(Integer::intValue).toArray();
    }

    static FinishReason finishReason(dev.tokenloom.v1.FinishReason reason) {
        return switch (reason) {
            case FINISH_REASON_UNSPECIFIED -> FinishReason.NONE;
            case FINISH_REASON_EOS -> FinishReason.EOS;
            case FINISH_REASON_LENGTH -> FinishReason.LENGTH;
            case FINISH_REASON_STOP_STRING -> FinishReason.STOP_STRING;
            case FINISH_REASON_STOPPED, UNRECOGNIZED -> FinishReason.STOPPED; // A newer server's reason ended it too.
        };
    }

    static SessionState state(dev.tokenloom.v1.SessionState state) {
        return new SessionState(
                state.getSessionId(),
                state.getModel(),
                state.getAdapter(),
                state.getLength(),
                state.getIsDone(),
                state.getRowsList().stream().map(Convert::row).toList(),
                instant(state.getExpireTime()),
                state.getParked(),
                state.getAttached());
    }

    static Step step(StepEvent event) {
        return new Step(event.getRowsList().stream().map(Convert::token).toList());
    }

    static Generated generated(GenerateTokensResponse reply) {
        return new Generated(
                state(reply.getState()),
                reply.getRowsList().stream().map(Convert::output).toList(),
                reply.getSteps(),
                reply.hasLogits() ? Optional.of(logits(reply.getLogits())) : Optional.empty(),
                reply.getInterrupted());
    }

    static RowSummary summary(dev.tokenloom.v1.RowSummary summary) {
        return new RowSummary(
                summary.getRow(),
                ints(summary.getTokenIdsList()),
                summary.getText(),
                finishReason(summary.getFinishReason()),
                summary.getStopString(),
                summary.getPromptTokens(),
                summary.getSeed());
    }

    static Logits logits(dev.tokenloom.v1.Logits logits) {
        int rows = logits.getValues().getShape(0);
        int columns = logits.getValues().getShape(1);
        float[] all = Tensors.floats(logits.getValues());
        float[][] values = new float[rows][];
        int[][] ids = logits.getTokenIdsCount() == 0 ? null : new int[rows][];
        for (int row = 0; row < rows; row++) {
            int start = row * columns;
            values[row] = Arrays.copyOfRange(all, start, start + columns);
            if (ids != null) {
                ids[row] = ints(logits.getTokenIdsList().subList(start, start + columns));
            }
        }
        return new Logits(values, ids);
    }

    static ServerInfo serverInfo(GetServerInfoResponse reply) {
        return new ServerInfo(
                reply.getVersion(),
                reply.getInstanceId(),
                reply.getMaxSessions(),
                reply.getMaxQueuedOperations(),
                reply.getMaxMessageBytes(),
                duration(reply.getDefaultIdleTimeout()),
                duration(reply.getMaxIdleTimeout()),
                reply.getDefaultModel());
    }

    static ModelInfo model(Model model) {
        return model(model, List.of(), List.of());
    }

    static ModelInfo model(
            Model model, List<dev.tokenloom.v1.TensorInfo> inputs, List<dev.tokenloom.v1.TensorInfo> outputs) {
        return new ModelInfo(
                model.getName(),
                model.getType(),
                model.getVocabSize(),
                model.getMaxLength(),
                model.getSlots(),
                model.getDevice(),
                model.getGenerationConfig(),
                model.getHasTokenizer(),
                model.getHasChatTemplate(),
                inputs.stream().map(Convert::tensorInfo).toList(),
                outputs.stream().map(Convert::tensorInfo).toList());
    }

    static AdapterInfo adapter(Adapter adapter) {
        return new AdapterInfo(adapter.getName(), adapter.getPath(), adapter.getSizeBytes(), adapter.getSessions());
    }

    private static RowState row(dev.tokenloom.v1.RowState row) {
        return new RowState(
                row.getLength(), row.getNewTokens(), finishReason(row.getFinishReason()), row.getStopString());
    }

    private static Token token(RowTokens row) {
        return new Token(row.getRow(), row.getTokenIds(0), row.getText(), finishReason(row.getFinishReason()));
    }

    private static RowOutput output(RowTokens row) {
        return new RowOutput(
                row.getRow(), ints(row.getTokenIdsList()), row.getText(), finishReason(row.getFinishReason()));
    }

    private static TensorInfo tensorInfo(dev.tokenloom.v1.TensorInfo info) {
        return new TensorInfo(
                info.getName(),
                info.getType(),
                info.getShapeList().stream().mapToLong(Long::longValue).toArray());
    }

    private static Instant instant(Timestamp time) {
        return Instant.ofEpochSecond(time.getSeconds(), time.getNanos());
    }
}
