package dev.tokenloom;

import com.google.protobuf.ByteString;
import dev.tokenloom.v1.DataType;
import dev.tokenloom.v1.Tensor;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Java arrays to tensors of the wire (row-major, little-endian) and back. */
public final class Tensors {
    private Tensors() {}

    /** A float32 tensor. No extents: a scalar. */
    public static Tensor of(float[] data, int... shape) {
        ByteBuffer buffer = buffer(data.length * Float.BYTES);
        buffer.asFloatBuffer().put(data);
        return tensor(DataType.DATA_TYPE_FLOAT32, buffer, data.length, shape);
    }

    /** A float32 tensor [rows, columns]; rows of the same length. */
    public static Tensor of(float[][] rows) {
        int columns = rows.length == 0 ? 0 : rows[0].length;
        ByteBuffer buffer = buffer(rows.length * columns * Float.BYTES);
        for (float[] row : rows) {
            if (row.length != columns) {
                throw new IllegalArgumentException("rows: expected " + columns + " values in each, got " + row.length);
            }
            for (float value : row) {
                buffer.putFloat(value);
            }
        }
        return tensor(DataType.DATA_TYPE_FLOAT32, buffer.rewind(), rows.length * columns, rows.length, columns);
    }

    /** An int32 tensor. */
    public static Tensor of(int[] data, int... shape) {
        ByteBuffer buffer = buffer(data.length * Integer.BYTES);
        buffer.asIntBuffer().put(data);
        return tensor(DataType.DATA_TYPE_INT32, buffer, data.length, shape);
    }

    /** An int64 tensor. */
    public static Tensor of(long[] data, int... shape) {
        ByteBuffer buffer = buffer(data.length * Long.BYTES);
        buffer.asLongBuffer().put(data);
        return tensor(DataType.DATA_TYPE_INT64, buffer, data.length, shape);
    }

    /** A tensor of truth values. */
    public static Tensor of(boolean[] data, int... shape) {
        ByteBuffer buffer = buffer(data.length);
        for (boolean value : data) {
            buffer.put((byte) (value ? 1 : 0));
        }
        return tensor(DataType.DATA_TYPE_BOOL, buffer.rewind(), data.length, shape);
    }

    /** The elements of a float32 or float16 tensor, row-major. */
    public static float[] floats(Tensor tensor) {
        ByteBuffer data = data(tensor);
        float[] values = new float[data.remaining() / (isHalf(tensor) ? Short.BYTES : Float.BYTES)];
        switch (tensor.getDtype()) {
            case DATA_TYPE_FLOAT32 -> data.asFloatBuffer().get(values);
            case DATA_TYPE_FLOAT16 -> {
                for (int i = 0; i < values.length; i++) {
                    values[i] = fromHalf(data.getShort());
                }
            }
            default -> throw wrongType(tensor);
        }
        return values;
    }

    /** The elements of an integer tensor or one of truth values, row-major. */
    public static long[] longs(Tensor tensor) {
        ByteBuffer data = data(tensor);
        return switch (tensor.getDtype()) {
            case DATA_TYPE_INT64 -> {
                long[] values = new long[data.remaining() / Long.BYTES];
                data.asLongBuffer().get(values);
                yield values;
            }
            case DATA_TYPE_INT32 -> java.util.stream.IntStream.range(0, data.remaining() / Integer.BYTES)
                    .mapToLong(i -> data.getInt(i * Integer.BYTES))
                    .toArray();
            case DATA_TYPE_BOOL -> java.util.stream.IntStream.range(0, data.remaining())
                    .mapToLong(data::get)
                    .toArray();
            default -> throw wrongType(tensor);
        };
    }

    private static ByteBuffer buffer(int bytes) {
        return ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }

    private static ByteBuffer data(Tensor tensor) {
        return tensor.getData().asReadOnlyByteBuffer().order(ByteOrder.LITTLE_ENDIAN);
    }

    private static boolean isHalf(Tensor tensor) {
        return tensor.getDtype() == DataType.DATA_TYPE_FLOAT16;
    }

    private static Tensor tensor(DataType type, ByteBuffer data, int elements, int... shape) {
        Tensor.Builder tensor = Tensor.newBuilder().setDtype(type).setData(ByteString.copyFrom(data));
        long product = 1;
        for (int extent : shape) {
            tensor.addShape(extent);
            product *= extent;
        }
        if (product != elements) {
            throw new IllegalArgumentException("shape: expected the extents of " + elements + " elements, got " + product);
        }
        return tensor.build();
    }

    private static IllegalArgumentException wrongType(Tensor tensor) {
        return new IllegalArgumentException("the tensor's elements are of another type: " + tensor.getDtype());
    }

    /** IEEE 754 binary16 to binary32. */
    private static float fromHalf(short half) {
        int sign = (half & 0x8000) << 16;
        int exponent = half >> 10 & 0x1f;
        int fraction = half & 0x3ff;
        if (exponent == 0) { // Zero and subnormal numbers: the fraction times 2^-24.
            float magnitude = fraction * 0x1p-24f;
            return sign == 0 ? magnitude : -magnitude;
        }
        int wide = exponent == 31 ? 0xff : exponent + 112; // Infinity and NaN keep the largest exponent.
        return Float.intBitsToFloat(sign | wide << 23 | fraction << 13);
    }
}
