package dev.tokenloom;

import com.google.protobuf.ByteString;
import dev.tokenloom.v1.EditOperation;
import dev.tokenloom.v1.LogitsEdit;
import dev.tokenloom.v1.SparseEdit;
import java.util.BitSet;

/**
 * Changes to the logits of the next token, made in order, before the model's processors and sampling. They are for every
 * unfinished row; with {@link #forRow} for one. -inf is legal, NaN and +inf are not.
 */
public final class LogitsEdits {
    private LogitsEdits() {}

    /** Replace all logits, of all rows alike: [vocab_size]. */
    public static LogitsEdit dense(float[] values) {
        return LogitsEdit.newBuilder().setDense(Tensors.of(values, values.length)).build();
    }

    /** Replace all logits: [rows][vocab_size]. */
    public static LogitsEdit dense(float[][] values) {
        return LogitsEdit.newBuilder().setDense(Tensors.of(values)).build();
    }

    /** Replace the logits of these tokens, each named once. */
    public static LogitsEdit set(int[] ids, float[] values) {
        return sparse(EditOperation.EDIT_OPERATION_SET, ids, values);
    }

    /** Add to the logits of these tokens, each named once. */
    public static LogitsEdit add(int[] ids, float[] values) {
        return sparse(EditOperation.EDIT_OPERATION_ADD, ids, values);
    }

    /** Multiply the logits of these tokens, each named once. */
    public static LogitsEdit multiply(int[] ids, float[] values) {
        return sparse(EditOperation.EDIT_OPERATION_MULTIPLY, ids, values);
    }

    /** Let only these tokens through. */
    public static LogitsEdit allow(BitSet tokens, int vocabSize) {
        if (tokens.length() > vocabSize) {
            throw new IllegalArgumentException(
                    "tokens: expected ids below " + vocabSize + ", got " + (tokens.length() - 1));
        }
        byte[] mask = new byte[(vocabSize + 7) / 8];
        byte[] bits = tokens.toByteArray();
        System.arraycopy(bits, 0, mask, 0, bits.length);
        return LogitsEdit.newBuilder().setAllowMask(ByteString.copyFrom(mask)).build();
    }

    /** Never choose these tokens. */
    public static LogitsEdit deny(int... ids) {
        return LogitsEdit.newBuilder().setDenyIds(Inputs.tokenIds(ids)).build();
    }

    /** The same change, to one row. */
    public static LogitsEdit forRow(int row, LogitsEdit edit) {
        return edit.toBuilder().setRow(row).build();
    }

    private static LogitsEdit sparse(EditOperation operation, int[] ids, float[] values) {
        SparseEdit.Builder edit = SparseEdit.newBuilder().setOperation(operation);
        for (int id : ids) {
            edit.addTokenIds(id);
        }
        for (float value : values) {
            edit.addValues(value);
        }
        return LogitsEdit.newBuilder().setSparse(edit).build();
    }
}
