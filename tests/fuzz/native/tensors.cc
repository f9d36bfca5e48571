#include "tests/fuzz/native/tensors.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "native/tensorflow/tensors.h"
#include "native/tensorflow/tf_symbols.h"

struct TF_Status {};
struct TF_Tensor {
  TF_DataType dtype;
  void* data;
  std::size_t bytes;
  void (*deallocator)(void*, std::size_t, void*);
};
struct TF_OpKernelContext {
  int outputs = 0;
};

namespace ignite_strategy {
namespace {

volatile unsigned touched = 0;

std::size_t SizeOf(TF_DataType dtype) {
  return dtype == TF_STRING ? sizeof(TensorString) : ItemSize(static_cast<DType>(dtype));
}

// What TensorFlow takes for granted, or checks itself.
void CheckSize(TF_DataType dtype, const std::int64_t* dims, int count, std::size_t bytes) {
  std::size_t want = SizeOf(dtype);
  for (int i = 0; i < count; ++i) {
    if (dims[i] < 0) std::abort();
    want *= static_cast<std::size_t>(dims[i]);
  }
  if (want == bytes) return;
  std::fprintf(stderr, "a tensor of dtype %u has %zu bytes where its shape needs %zu\n",
               static_cast<unsigned>(dtype), bytes, want);
  std::abort();
}

void Touch(const void* data, std::size_t size) {
  unsigned sum = 0;
  for (std::size_t i = 0; i < size; ++i) sum += static_cast<const std::uint8_t*>(data)[i];
  touched = touched + sum;
}

void Delete(TF_Tensor* tensor) {
  if (tensor->dtype == TF_STRING) {
    auto* texts = static_cast<TensorString*>(tensor->data);
    for (std::size_t i = 0; i < tensor->bytes / sizeof(TensorString); ++i) {
      const bool large = (texts[i].raw[0] & 3u) == TensorString::kLarge;
      if (large) Touch(texts[i].large.bytes, texts[i].large.size >> 2);
      if (large) std::free(texts[i].large.bytes);
    }
  }
  Touch(tensor->data, tensor->bytes);
  tensor->deallocator(tensor->data, tensor->bytes, nullptr);
  delete tensor;
}

TF_Tensor* New(TF_DataType dtype, const std::int64_t* dims, int count, void* data, std::size_t bytes,
               void (*deallocator)(void*, std::size_t, void*), void*) {
  CheckSize(dtype, dims, count, bytes);
  return new TF_Tensor{dtype, data, bytes, deallocator};
}

TF_Tensor* Allocated(TF_OpKernelContext* context, int index, TF_DataType dtype, const std::int64_t* dims,
                     int count, std::size_t bytes, TF_Status*) {
  ++context->outputs;
  return New(
      dtype, dims, count, std::calloc(bytes + 1, 1), bytes,
      [](void* data, std::size_t, void*) { std::free(data); }, nullptr);
}

TfSymbols Symbols() {
  TfSymbols symbols;
  symbols.NewStatus = [] { return new TF_Status; };
  symbols.DeleteStatus = [](TF_Status* status) { delete status; };
  symbols.GetCode = [](const TF_Status*) { return TF_OK; };
  symbols.Message = [](const TF_Status*) { return ""; };
  symbols.NewTensor = New;
  symbols.DeleteTensor = Delete;
  symbols.TensorData = [](const TF_Tensor* tensor) { return tensor->data; };
  symbols.SetOutput = [](TF_OpKernelContext* context, int, const TF_Tensor*, TF_Status*) {
    ++context->outputs;
  };
  symbols.AllocateOutput = Allocated;
  return symbols;
}

}  // namespace

const TfSymbols& Tf() {
  static const TfSymbols symbols = Symbols();
  return symbols;
}

void MakeTensors(std::vector<Column> columns) {
  TF_OpKernelContext context;
  int index = 0;
  for (Column& column : columns) {
    if (column.dtype == DType::kString) {
      SetOutput(&context, index++, column.shape, column.strings);
    } else {
      SetOutput(&context, index++, column.dtype, column.shape, std::move(column.data));
    }
    if (!column.splits.empty()) SetOutput(&context, index++, column.splits);
    if (column.masked) SetOutput(&context, index++, DType::kBool, column.mask_shape, std::move(column.mask));
  }
  if (context.outputs != index) std::abort();
}

}  // namespace ignite_strategy
