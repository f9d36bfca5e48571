// Between TensorFlow's tensors and ours.
#ifndef IGNITE_STRATEGY_NATIVE_TENSORFLOW_TENSORS_H_
#define IGNITE_STRATEGY_NATIVE_TENSORFLOW_TENSORS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "native/binary/columns.h"
#include "native/tensorflow/tf_c_api.h"

namespace ignite_strategy {

// Throws Error when a call said so in `status`.
void CheckStatus(const TF_Status* status);

// Inputs of a kernel.
std::string StringInput(TF_OpKernelContext* context, int index);
std::int64_t Int64Input(TF_OpKernelContext* context, int index);
std::vector<std::int32_t> Int32VectorInput(TF_OpKernelContext* context, int index);

// Outputs of a kernel. Buffers become tensors without being copied.
void SetOutput(TF_OpKernelContext* context, int index, DType dtype, const std::vector<std::int64_t>& shape,
               Buffer buffer);
void SetOutput(TF_OpKernelContext* context, int index, const std::vector<std::int64_t>& shape,
               const std::vector<std::string_view>& strings);
void SetOutput(TF_OpKernelContext* context, int index, const std::vector<std::int64_t>& numbers);
void SetScalar(TF_OpKernelContext* context, int index, std::int64_t value);
void SetScalar(TF_OpKernelContext* context, int index, bool value);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_TENSORFLOW_TENSORS_H_
