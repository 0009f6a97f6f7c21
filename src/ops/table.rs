//! The table of all ops.

/// Table of all ops by the name of their file, in groups. `each_op!(make)` passes the groups to `make!`.
macro_rules! each_op {
    ($make:ident) => {
        $make! {
            // With a kernel on every device, in files of the same names.
            {
                activation { Activation = activation, ActivationBackward = activation_backward }
                adam { Adam = adam }
                add_scaled { AddScaled = add_scaled }
                attention { Attention = attention }
                attention_backward { AttentionBackward = attention_backward }
                attention_bias { AttentionBias = attention_bias }
                attention_mask { AttentionMask = attention_mask }
                attention_output { AttentionOutput = attention_output }
                attention_scores { AttentionScores = attention_scores }
                bias_gelu { BiasGelu = bias_gelu }
                binary { Binary = binary }
                binary_cross_entropy { BinaryCrossEntropy = binary_cross_entropy }
                cast { Cast = cast }
                clip_norm { ClipNorm = clip_norm }
                combine_moments { CombineMoments = combine_moments }
                cross_entropy { CrossEntropy = cross_entropy, CrossEntropyBackward = cross_entropy_backward }
                dequantize_rows { DequantizeRows = dequantize_rows }
                dropout { Dropout = dropout }
                embedding_backward { EmbeddingBackward = embedding_backward }
                embedding_sum { EmbeddingSum = embedding_sum }
                expert_linear { ExpertLinear = expert_linear }
                gated { Gated = gated, GatedBackward = gated_backward }
                grow_unit { GrowUnit = grow_unit }
                integer_linear { IntegerLinear = integer_linear }
                layer_norm {
                    LayerNorm = layer_norm,
                    LayerNormBackward = layer_norm_backward,
                    LayerNormWeightBackward = layer_norm_weight_backward
                }
                linear { Linear = linear }
                matmul { Matmul = matmul }
                max_sim { MaxSim = max_sim }
                max_sum { MaxSum = max_sum }
                normalize { Normalize = normalize }
                pool { Pool = pool, PoolBackward = pool_backward }
                quantize_rows { QuantizeRows = quantize_rows }
                quantized_linear { QuantizedLinear = quantized_linear }
                reduce { Reduce = reduce }
                residual_layer_norm { ResidualLayerNorm = residual_layer_norm }
                residual_rms_norm { ResidualRmsNorm = residual_rms_norm }
                rms_norm { RmsNorm = rms_norm, RmsNormBackward = rms_norm_backward }
                rms_norm_rope { RmsNormRope = rms_norm_rope }
                rope { Rope = rope }
                route { Route = route }
                set_rows { SetRows = set_rows }
                sgd { Sgd = sgd }
                softmax { Softmax = softmax, SoftmaxBackward = softmax_backward }
                sort_indices { SortIndices = sort_indices }
                token_convolution { TokenConvolution = token_convolution }
                top_k { TopK = top_k }
                weighted_sum { WeightedSum = weighted_sum }
            }
            // Fused ops with kernels on Vulkan devices; the CPU runs the steps of their definitions.
            {
                gated_linear { GatedLinear = gated_linear }
                layer_norm_linear { LayerNormLinear = layer_norm_linear }
                norm_quantize_rows {
                    LayerNormQuantizeRows = layer_norm_quantize_rows,
                    RmsNormQuantizeRows = rms_norm_quantize_rows
                }
                softmax_dropout { SoftmaxDropout = softmax_dropout }
            }
            // Compositions: plans have the steps of their definitions alone.
            {
                hebbian_update { HebbianUpdate = hebbian_update }
                loss { Loss = loss }
                neurogenesis { Neurogenesis = neurogenesis }
                softmax_along { SoftmaxAlong = softmax_along, SoftmaxAlongBackward = softmax_along_backward }
                streaming_moments { StreamingMoments = streaming_moments }
                whiten { Whiten = whiten }
            }
        }
    };
}
pub(crate) use each_op;
