package dev.tokenloom;

import java.util.List;
import java.util.Optional;

/**
 * Result of a generation: what each row that was not finished got, the number of steps made, the logits asked for with
 * return_logits, and whether it was ended early.
 */
public record Generated(
        SessionState state, List<RowOutput> rows, int steps, Optional<Logits> logits, boolean interrupted) {}
