// The part of TensorFlow's C interface that this library uses, declared here so that building needs no
// TensorFlow.
//
// tests/unit/test_tf_c_api.py compiles this after TensorFlow's own headers, where every declaration must
// agree, for the oldest and the newest TensorFlow. IGNITE_STRATEGY_WITH_TENSORFLOW_HEADERS leaves out what
// must not be defined twice.
#ifndef IGNITE_STRATEGY_NATIVE_TENSORFLOW_TF_C_API_H_
#define IGNITE_STRATEGY_NATIVE_TENSORFLOW_TF_C_API_H_

#include <cstddef>
#include <cstdint>

extern "C" {

#ifndef IGNITE_STRATEGY_WITH_TENSORFLOW_HEADERS
enum TF_Code : unsigned int { TF_OK = 0, TF_OUT_OF_RANGE = 11 };
enum TF_DataType : unsigned int { TF_INT32 = 3, TF_STRING = 7, TF_INT64 = 9, TF_BOOL = 10 };
typedef struct TF_Status TF_Status;
typedef struct TF_Tensor TF_Tensor;
typedef struct TF_OpDefinitionBuilder TF_OpDefinitionBuilder;
typedef struct TF_ShapeInferenceContext TF_ShapeInferenceContext;
typedef struct TF_KernelBuilder TF_KernelBuilder;
typedef struct TF_OpKernelConstruction TF_OpKernelConstruction;
typedef struct TF_OpKernelContext TF_OpKernelContext;
#endif

TF_Status* TF_NewStatus(void);
void TF_DeleteStatus(TF_Status* status);
void TF_SetStatus(TF_Status* status, TF_Code code, const char* message);
TF_Code TF_GetCode(const TF_Status* status);
const char* TF_Message(const TF_Status* status);

TF_Tensor* TF_NewTensor(TF_DataType dtype, const int64_t* dims, int num_dims, void* data, size_t len,
                        void (*deallocator)(void* data, size_t len, void* arg), void* deallocator_arg);
void TF_DeleteTensor(TF_Tensor* tensor);
TF_DataType TF_TensorType(const TF_Tensor* tensor);
int TF_NumDims(const TF_Tensor* tensor);
int64_t TF_Dim(const TF_Tensor* tensor, int index);
void* TF_TensorData(const TF_Tensor* tensor);

TF_OpDefinitionBuilder* TF_NewOpDefinitionBuilder(const char* op_name);
void TF_OpDefinitionBuilderAddAttr(TF_OpDefinitionBuilder* builder, const char* attr_spec);
void TF_OpDefinitionBuilderAddInput(TF_OpDefinitionBuilder* builder, const char* input_spec);
void TF_OpDefinitionBuilderAddOutput(TF_OpDefinitionBuilder* builder, const char* output_spec);
void TF_OpDefinitionBuilderSetIsStateful(TF_OpDefinitionBuilder* builder, bool is_stateful);
void TF_OpDefinitionBuilderSetShapeInferenceFunction(TF_OpDefinitionBuilder* builder,
                                                     void (*function)(TF_ShapeInferenceContext* context,
                                                                      TF_Status* status));
void TF_RegisterOpDefinition(TF_OpDefinitionBuilder* builder, TF_Status* status);
void TF_ShapeInferenceContextSetUnknownShape(TF_ShapeInferenceContext* context, TF_Status* status);

TF_KernelBuilder* TF_NewKernelBuilder(const char* op_name, const char* device_name,
                                      void* (*create)(TF_OpKernelConstruction* construction),
                                      void (*compute)(void* kernel, TF_OpKernelContext* context),
                                      void (*destroy)(void* kernel));
void TF_RegisterKernelBuilder(const char* kernel_name, TF_KernelBuilder* builder, TF_Status* status);
int TF_NumOutputs(TF_OpKernelContext* context);
TF_DataType TF_ExpectedOutputDataType(TF_OpKernelContext* context, int index);
void TF_GetInput(TF_OpKernelContext* context, int index, TF_Tensor** tensor, TF_Status* status);
void TF_SetOutput(TF_OpKernelContext* context, int index, const TF_Tensor* tensor, TF_Status* status);
TF_Tensor* TF_AllocateOutput(TF_OpKernelContext* context, int index, TF_DataType dtype, const int64_t* dims,
                             int num_dims, size_t len, TF_Status* status);
void TF_OpKernelContext_Failure(TF_OpKernelContext* context, TF_Status* status);

}  // extern "C"

namespace ignite_strategy {

// TF_TString, one element of a string tensor: 24 bytes, whose lowest two bits say which of its forms it has.
// Only the two forms that own their bytes are written here; all four are read.
struct TensorString {
  static constexpr std::size_t kSmallCapacity = 22;
  enum Form : unsigned { kSmall = 0, kLarge = 1, kOffset = 2, kView = 3 };
  union {
    struct {
      std::uint8_t size;  // << 2 | form
      char bytes[kSmallCapacity + 1];
    } small;
    struct {
      std::size_t size;  // << 2 | form
      std::size_t capacity;
      char* bytes;  // of malloc: TensorFlow frees it
    } large;
    struct {
      std::uint32_t size;  // << 2 | form
      std::uint32_t offset;
      std::uint32_t count;
    } offset;
    struct {
      std::size_t size;  // << 2 | form
      const char* bytes;
    } view;
    std::uint8_t raw[24];
  };
};
static_assert(sizeof(TensorString) == 24, "an element of a string tensor has 24 bytes");

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_TENSORFLOW_TF_C_API_H_
