package dev.tokenloom;

import dev.tokenloom.v1.GenerationConfig;
import java.util.List;

/**
 * A loaded model. {@code maxLength} is the longest sequence, in tokens; {@code slots} the rows that can be in the cache
 * at once; {@code generationConfig} what is in force where a request sets nothing. The inputs and outputs of its graph
 * are there in the answer of {@link Models#get} only.
 */
public record ModelInfo(
        String name,
        String type,
        int vocabSize,
        int maxLength,
        int slots,
        String device,
        GenerationConfig generationConfig,
        boolean hasTokenizer,
        boolean hasChatTemplate,
        List<TensorInfo> inputs,
        List<TensorInfo> outputs) {}
