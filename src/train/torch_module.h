/* The calls between the trainer and the module that links LibTorch. Plain C, so that the two may be built with
   different C++ standard libraries and LibTorch versions. All pointers are to host memory; matrices are row-major. */
#ifndef WARPSMITH_TORCH_MODULE_H
#define WARPSMITH_TORCH_MODULE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WARPSMITH_TORCH_ABI 1

typedef struct {
  int32_t vocabulary, segments, layers, width, heads, hidden;
  int32_t threads; /* of the CPU; 0: LibTorch's choice. Results repeat bit for bit with the same number */
  int32_t device;  /* -1: CPU; otherwise the CUDA device */
  double beta1, beta2, epsilon, weight_decay; /* AdamW */
} WarpsmithTorchOptions;

/* Sequences padded to one length (causal attention never sees the padding), and the tokens to be predicted. */
typedef struct {
  int32_t sequences, length;
  const int32_t* tokens;   /* [sequences][length] */
  const int32_t* segments; /* [sequences][length] */
  int32_t targets;
  const int32_t* at;            /* [targets] sequence * length + position of the token that predicts */
  const int32_t* token;         /* [targets] the token that follows */
  const int32_t* sequence;      /* [targets] */
  const int32_t* allowed_begin; /* [targets + 1] into allowed */
  const int32_t* allowed;       /* tokens of the mask */
  const float* weight;          /* [targets] of -log p; objective likelihood */
  const float* advantage;       /* [targets]; objective clipped */
  const float* old_log_p;       /* [targets]; objective clipped */
} WarpsmithTorchBatch;

/* likelihood: sum of weight * -log p over targets, over `divisor`.
   clipped: GRPO's -min(ratio A, clip(ratio, 1 - clip, 1 + clip) A) + kl * (exp(d) - d - 1) with
   d = log p_reference - log p, averaged over each sequence's targets, summed over sequences, over `divisor`. */
enum { WARPSMITH_TORCH_LIKELIHOOD = 0, WARPSMITH_TORCH_CLIPPED = 1 };

typedef struct {
  int32_t kind;
  double divisor, temperature;         /* logits are divided by the temperature */
  double clip, kl, entropy;            /* entropy: its bonus, per target */
  double learning_rate, gradient_norm; /* gradients are scaled down to this norm */
} WarpsmithTorchObjective;

typedef struct {
  double loss, kl, entropy, gradient_norm, clipped_share, mean_log_p;
} WarpsmithTorchReport;

typedef struct WarpsmithTorchLearner WarpsmithTorchLearner;

/* Functions that can fail return 0 on success and write a line into error (of `size` bytes) otherwise. */
typedef struct {
  int32_t abi;
  const char* torch_version;
  WarpsmithTorchLearner* (*create)(const WarpsmithTorchOptions* options, char* error, int size); /* NULL on failure */
  void (*destroy)(WarpsmithTorchLearner* learner);
  /* Weights in the order of parameters_of(); moments: Adam's first, then second, each of that size. */
  int (*set_state)(WarpsmithTorchLearner* learner, const float* weights, const float* moments, int64_t steps,
                   char* error, int size);
  int (*get_state)(WarpsmithTorchLearner* learner, float* weights, float* moments, int64_t* steps, char* error,
                   int size);
  int (*set_reference)(WarpsmithTorchLearner* learner, const float* weights, char* error, int size);
  int (*log_p)(WarpsmithTorchLearner* learner, const WarpsmithTorchBatch* batch, double temperature, float* out,
               char* error, int size);
  /* One optimiser step. A loss or gradient that is not finite: an error, and nothing changes. */
  int (*step)(WarpsmithTorchLearner* learner, const WarpsmithTorchBatch* batch,
              const WarpsmithTorchObjective* objective, WarpsmithTorchReport* report, char* error, int size);
} WarpsmithTorchModule;

/* The one symbol that the module exports. */
const WarpsmithTorchModule* warpsmith_torch_module(void);

#ifdef __cplusplus
}
#endif

#endif
