package dev.tokenloom;

import com.google.protobuf.Descriptors.MethodDescriptor;
import dev.tokenloom.v1.GeneratorOuterClass;
import dev.tokenloom.v1.ModelsOuterClass;
import dev.tokenloom.v1.TokenizerOuterClass;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** The service config of the channel: what is sent again where no server answers. */
final class RetryPolicy {
    private RetryPolicy() {}

    /** UNAVAILABLE alone can mean "done, answer lost": so only what is safe twice is sent twice. */
    static Map<String, ?> serviceConfig() {
        List<Map<String, String>> safe = Stream.of(
                        GeneratorOuterClass.getDescriptor(), ModelsOuterClass.getDescriptor(), TokenizerOuterClass.getDescriptor())
                .flatMap(file -> file.getServices().stream())
                .flatMap(service -> service.getMethods().stream())
                .filter(RetryPolicy::isSafe)
                .map(method -> Map.of("service", method.getService().getFullName(), "method", method.getName()))
                .toList();
        Map<String, ?> policy = Map.of(
                "maxAttempts", 5.0,
                "initialBackoff", "0.1s",
                "maxBackoff", "2s",
                "backoffMultiplier", 2.0,
                "retryableStatusCodes", List.of("UNAVAILABLE"));
        return Map.of("methodConfig", List.of(Map.of("name", safe, "retryPolicy", policy)));
    }

    /** Reads, and operations with a request id: the server answers a second one with the first answer. */
    private static boolean isSafe(MethodDescriptor method) {
        boolean isRead = method.getName().startsWith("Get")
                || method.getName().startsWith("List")
                || method.getService().getName().equals("Tokenizer");
        boolean isStream = method.isClientStreaming() || method.isServerStreaming();
        return !isStream && (isRead || method.getInputType().findFieldByName("request_id") != null);
    }
}
