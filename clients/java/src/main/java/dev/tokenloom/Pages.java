package dev.tokenloom;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;

/** Lists that come a page at a time. */
final class Pages {
    static final int SIZE = 1000;

    private Pages() {}

    /** All items. {@code page}: the page for a token; "" for the first. */
    static <P, T> List<T> all(Function<String, P> page, Function<P, List<T>> items, Function<P, String> nextToken) {
        List<T> found = new ArrayList<>();
        String token = "";
        do {
            P reply = page.apply(token);
            found.addAll(items.apply(reply));
            token = nextToken.apply(reply);
        } while (!token.isEmpty());
        return List.copyOf(found);
    }
}
