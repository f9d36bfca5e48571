// TensorFlow's C functions, found in the framework library that the process has already loaded.
#ifndef IGNITE_STRATEGY_NATIVE_TENSORFLOW_TF_SYMBOLS_H_
#define IGNITE_STRATEGY_NATIVE_TENSORFLOW_TF_SYMBOLS_H_

#include "native/tensorflow/tf_c_api.h"

// Each name without its TF_.
// clang-format off
#define IGNITE_STRATEGY_TF_SYMBOLS(X) \
  X(NewStatus) \
  X(DeleteStatus) \
  X(SetStatus) \
  X(GetCode) \
  X(Message) \
  X(NewTensor) \
  X(DeleteTensor) \
  X(TensorType) \
  X(NumDims) \
  X(Dim) \
  X(TensorData) \
  X(NewOpDefinitionBuilder) \
  X(OpDefinitionBuilderAddAttr) \
  X(OpDefinitionBuilderAddInput) \
  X(OpDefinitionBuilderAddOutput) \
  X(OpDefinitionBuilderSetIsStateful) \
  X(OpDefinitionBuilderSetShapeInferenceFunction) \
  X(RegisterOpDefinition) \
  X(ShapeInferenceContextSetUnknownShape) \
  X(NewKernelBuilder) \
  X(RegisterKernelBuilder) \
  X(NumOutputs) \
  X(ExpectedOutputDataType) \
  X(GetInput) \
  X(SetOutput) \
  X(AllocateOutput) \
  X(OpKernelContext_Failure)
// clang-format on

namespace ignite_strategy {

struct TfSymbols {
#define IGNITE_STRATEGY_DECLARE(name) decltype(&::TF_##name) name = nullptr;
  IGNITE_STRATEGY_TF_SYMBOLS(IGNITE_STRATEGY_DECLARE)
#undef IGNITE_STRATEGY_DECLARE
};

// Null, and the reason in `*problem`, if TensorFlow is not loaded or lacks a function. Looked up once it
// succeeds.
const TfSymbols* FindTensorFlow(const char** problem);
// After FindTensorFlow succeeded.
const TfSymbols& Tf();

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_TENSORFLOW_TF_SYMBOLS_H_
