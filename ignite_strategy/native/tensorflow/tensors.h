// Between TensorFlow's tensors and ours.
#ifndef IGNITE_STRATEGY_NATIVE_TENSORFLOW_TENSORS_H_
#define IGNITE_STRATEGY_NATIVE_TENSORFLOW_TENSORS_H_

#include <cstdint>
#include <memory>
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
// The same for memory that `owner` keeps; copied unless it is aligned as tensors are.
void SetOutput(TF_OpKernelContext* context, int index, DType dtype, const std::vector<std::int64_t>& shape,
               const std::uint8_t* data, std::size_t bytes, std::shared_ptr<const void> owner);
void SetOutput(TF_OpKernelContext* context, int index, const std::vector<std::int64_t>& shape,
               const std::vector<std::string_view>& strings);
void SetOutput(TF_OpKernelContext* context, int index, const std::vector<std::int64_t>& numbers);
void SetScalar(TF_OpKernelContext* context, int index, std::int64_t value);
void SetScalar(TF_OpKernelContext* context, int index, bool value);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_TENSORFLOW_TENSORS_H_
