package dev.tokenloom;

import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/** Gives tests the server of the whole run, and a client of it. Both end with the run. */
final class ServerExtension implements ParameterResolver {
    private record Running(RunningServer server, TokenloomClient client) implements AutoCloseable {
        static Running start() {
            RunningServer server = RunningServer.start();
            return new Running(server, TokenloomClient.connect(server.target()));
        }

        @Override
        public void close() {
            client.close();
            server.close();
        }
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        Class<?> type = parameter.getParameter().getType();
        return type == RunningServer.class || type == TokenloomClient.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        Running running = context.getRoot()
                .getStore(Namespace.create(ServerExtension.class))
                .getOrComputeIfAbsent(Running.class, key -> Running.start(), Running.class);
        return parameter.getParameter().getType() == RunningServer.class ? running.server : running.client;
    }
}
