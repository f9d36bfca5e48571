#include "native/tensorflow/tensors.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "native/tensorflow/tf_symbols.h"
#include "native/wire/frame.h"

namespace ignite_strategy {
namespace {

struct StatusDeleter {
  void operator()(TF_Status* status) const { Tf().DeleteStatus(status); }
};
using Status = std::unique_ptr<TF_Status, StatusDeleter>;

struct TensorDeleter {
  void operator()(TF_Tensor* tensor) const { Tf().DeleteTensor(tensor); }
};
using Tensor = std::unique_ptr<TF_Tensor, TensorDeleter>;

Tensor Input(TF_OpKernelContext* context, int index, TF_DataType dtype, int rank) {
  const Status status(Tf().NewStatus());
  TF_Tensor* tensor = nullptr;
  Tf().GetInput(context, index, &tensor, status.get());
  CheckStatus(status.get());
  Tensor input(tensor);
  if (Tf().TensorType(tensor) != dtype || Tf().NumDims(tensor) != rank) {
    throw Error(Code::kInvalidArgument, "input " + std::to_string(index) + " has dtype " +
                                            std::to_string(Tf().TensorType(tensor)) + " and rank " +
                                            std::to_string(Tf().NumDims(tensor)));
  }
  return input;
}

std::string_view View(const TensorString& text) {
  switch (text.raw[0] & 3u) {
    case TensorString::kSmall:
      return {text.small.bytes, static_cast<std::size_t>(text.small.size >> 2)};
    case TensorString::kLarge:
      return {text.large.bytes, text.large.size >> 2};
    case TensorString::kOffset:
      return {reinterpret_cast<const char*>(&text) + text.offset.offset, text.offset.size >> 2};
    default:
      return {text.view.bytes, text.view.size >> 2};
  }
}

// Into an element that TensorFlow has made empty.
void Assign(TensorString& to, std::string_view from) {
  if (from.size() <= TensorString::kSmallCapacity) {
    to.small.size = static_cast<std::uint8_t>(from.size() << 2 | TensorString::kSmall);
    if (!from.empty()) std::memcpy(to.small.bytes, from.data(), from.size());
    to.small.bytes[from.size()] = '\0';
    return;
  }
  const std::size_t capacity = ((from.size() + 1 + 15) & ~std::size_t{15}) - 1;
  auto* bytes = static_cast<char*>(std::malloc(capacity + 1));
  if (bytes == nullptr) throw std::bad_alloc();
  std::memcpy(bytes, from.data(), from.size());
  bytes[from.size()] = '\0';
  to.large.size = from.size() << 2 | TensorString::kLarge;
  to.large.capacity = capacity;
  to.large.bytes = bytes;
}

Tensor Allocate(TF_OpKernelContext* context, int index, TF_DataType dtype,
                const std::vector<std::int64_t>& shape, std::size_t bytes) {
  const Status status(Tf().NewStatus());
  Tensor tensor(Tf().AllocateOutput(context, index, dtype, shape.data(), static_cast<int>(shape.size()),
                                    bytes, status.get()));
  CheckStatus(status.get());
  return tensor;
}

}  // namespace

void CheckStatus(const TF_Status* status) {
  const TF_Code code = Tf().GetCode(status);
  if (code != TF_OK) throw Error(static_cast<Code>(code), Tf().Message(status));
}

std::string StringInput(TF_OpKernelContext* context, int index) {
  const Tensor input = Input(context, index, TF_STRING, 0);
  return std::string(View(*static_cast<const TensorString*>(Tf().TensorData(input.get()))));
}

std::int64_t Int64Input(TF_OpKernelContext* context, int index) {
  const Tensor input = Input(context, index, TF_INT64, 0);
  return *static_cast<const std::int64_t*>(Tf().TensorData(input.get()));
}

std::vector<std::int32_t> Int32VectorInput(TF_OpKernelContext* context, int index) {
  const Tensor input = Input(context, index, TF_INT32, 1);
  const auto* data = static_cast<const std::int32_t*>(Tf().TensorData(input.get()));
  return std::vector<std::int32_t>(data, data + Tf().Dim(input.get(), 0));
}

void SetOutput(TF_OpKernelContext* context, int index, DType dtype, const std::vector<std::int64_t>& shape,
               Buffer buffer) {
  const std::size_t bytes = buffer.size();
  // A tensor around no memory at all crashes TensorFlow's unbatch(): one without elements is TensorFlow's to
  // make.
  if (bytes == 0) {
    Allocate(context, index, static_cast<TF_DataType>(dtype), shape, 0);
    return;
  }
  const Tensor tensor(Tf().NewTensor(
      static_cast<TF_DataType>(dtype), shape.data(), static_cast<int>(shape.size()), buffer.Release(), bytes,
      [](void* data, std::size_t, void*) { Buffer::Free(data); }, nullptr));
  if (!tensor) throw Error(Code::kInternal, "column " + std::to_string(index) + " has too few bytes");
  const Status status(Tf().NewStatus());
  Tf().SetOutput(context, index, tensor.get(), status.get());
  CheckStatus(status.get());
}

void SetOutput(TF_OpKernelContext* context, int index, DType dtype, const std::vector<std::int64_t>& shape,
               const std::uint8_t* data, std::size_t bytes, std::shared_ptr<const void> owner) {
  const Status status(Tf().NewStatus());
  if (reinterpret_cast<std::uintptr_t>(data) % Frame::kAlignment != 0) {
    const Tensor copy = Allocate(context, index, static_cast<TF_DataType>(dtype), shape, bytes);
    std::memcpy(Tf().TensorData(copy.get()), data, bytes);
    return;
  }
  auto kept = std::make_unique<std::shared_ptr<const void>>(std::move(owner));
  // Nobody else looks at these bytes again, should TensorFlow compute in place.
  const Tensor tensor(Tf().NewTensor(
      static_cast<TF_DataType>(dtype), shape.data(), static_cast<int>(shape.size()),
      const_cast<std::uint8_t*>(data), bytes,
      [](void*, std::size_t, void* argument) { delete static_cast<std::shared_ptr<const void>*>(argument); },
      kept.get()));
  kept.release();
  if (!tensor) throw Error(Code::kInternal, "column " + std::to_string(index) + " has too few bytes");
  Tf().SetOutput(context, index, tensor.get(), status.get());
  CheckStatus(status.get());
}

void SetOutput(TF_OpKernelContext* context, int index, const std::vector<std::int64_t>& shape,
               const std::vector<std::string_view>& strings) {
  const Tensor tensor = Allocate(context, index, TF_STRING, shape, strings.size() * sizeof(TensorString));
  auto* elements = static_cast<TensorString*>(Tf().TensorData(tensor.get()));
  for (std::size_t i = 0; i < strings.size(); ++i) Assign(elements[i], strings[i]);
}

void SetOutput(TF_OpKernelContext* context, int index, const std::vector<std::int64_t>& numbers) {
  const std::size_t bytes = numbers.size() * sizeof(std::int64_t);
  const Tensor tensor =
      Allocate(context, index, TF_INT64, {static_cast<std::int64_t>(numbers.size())}, bytes);
  if (bytes != 0) std::memcpy(Tf().TensorData(tensor.get()), numbers.data(), bytes);
}

void SetScalar(TF_OpKernelContext* context, int index, std::int64_t value) {
  const Tensor tensor = Allocate(context, index, TF_INT64, {}, sizeof(value));
  std::memcpy(Tf().TensorData(tensor.get()), &value, sizeof(value));
}

void SetScalar(TF_OpKernelContext* context, int index, bool value) {
  const Tensor tensor = Allocate(context, index, TF_BOOL, {}, sizeof(value));
  std::memcpy(Tf().TensorData(tensor.get()), &value, sizeof(value));
}

}  // namespace ignite_strategy
