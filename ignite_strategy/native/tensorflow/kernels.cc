// The dataset ops on TensorFlow's C interface: open, wait, next (or both in one), close. A GeneratorDataset
// drives them, so that one binary serves every TensorFlow 2.
//
// No kernel waits longer than kLongestWait: a blocked C-API kernel cannot be cancelled, but a function that
// loops over short ones ends as soon as its iterator is dropped.
#include <algorithm>
#include <cstdint>
#include <exception>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "native/scan/losses.h"
#include "native/scan/report.h"
#include "native/tensorflow/passes.h"
#include "native/tensorflow/tensors.h"
#include "native/tensorflow/tf_symbols.h"
#include "native/wire/partition.h"

#define IGNITE_STRATEGY_EXPORT extern "C" __attribute__((visibility("default")))

namespace ignite_strategy {
namespace {

constexpr Millis kLongestWait{500};

void Fail(TF_OpKernelContext* context, Code code, const char* message) {
  TF_Status* status = Tf().NewStatus();
  Tf().SetStatus(status, static_cast<TF_Code>(code), message);
  Tf().OpKernelContext_Failure(context, status);
  Tf().DeleteStatus(status);
}

// The border: no exception passes it.
template <void (*body)(TF_OpKernelContext*)>
void Compute(void*, TF_OpKernelContext* context) {
  try {
    body(context);
  } catch (const Error& error) {
    Fail(context, error.code(), error.what());
  } catch (const std::bad_alloc&) {
    Fail(context, Code::kResourceExhausted, "no memory for a batch");
  } catch (const std::exception& error) {
    Fail(context, Code::kInternal, error.what());
  }
}

// A host that is given has this before it.
constexpr char kGiven[] = "=";

// What the graph computes replaces what the description says: a partition that interleave() chose, for
// example.
void ApplyInputs(TF_OpKernelContext* context, ScanConfig& config) {
  const std::string host = StringInput(context, 1);
  const std::vector<std::int32_t> port = Int32VectorInput(context, 2);
  const std::vector<std::int32_t> partitions = Int32VectorInput(context, 3);
  if (!port.empty() && (port[0] < 1 || port[0] > 65535)) {
    throw Error(Code::kInvalidArgument, "port " + std::to_string(port[0]) + " is not between 1 and 65535");
  }
  if (!host.empty()) {
    if (host == kGiven)
      throw Error(Code::kInvalidArgument, "host is empty: give the name or address of a node");
    const std::uint16_t old_port = config.endpoints.empty() ? 10800 : config.endpoints.front().port;
    config.endpoints = {{host.substr(1), old_port}};
  }
  if (!port.empty()) {
    if (config.endpoints.empty()) config.endpoints.push_back({"localhost", 10800});
    for (Endpoint& endpoint : config.endpoints) endpoint.port = static_cast<std::uint16_t>(port[0]);
  }
  if (partitions == std::vector<std::int32_t>{-1}) {
    config.partitions.reset();  // all, as in the original
    return;
  }
  for (const std::int32_t partition : partitions) {
    if (partition >= 0 && partition <= kMaxPartition) continue;
    throw Error(Code::kInvalidArgument, "part = " + std::to_string(partition) +
                                            ": a partition is a number from 0 on, and -1 means all");
  }
  if (!partitions.empty()) config.partitions = partitions;
}

void Open(TF_OpKernelContext* context) {
  ScanConfig config = ScanConfig::Parse(StringInput(context, 0));
  ApplyInputs(context, config);
  SetScalar(context, 0, AddPass(std::make_shared<Pass>(ForThisProcess(std::move(config)))));
}

void WaitForRows(TF_OpKernelContext* context) {
  const std::shared_ptr<Pass> pass = FindPass(Int64Input(context, 0));
  const Scan::State state = pass->Prepare(kLongestWait);
  if (state == Scan::State::kEnd) return Fail(context, Code::kOutOfRange, "end of the pass");
  SetScalar(context, 0, state == Scan::State::kReady);
}

// What the columns of a batch may lie in.
struct Kept {
  std::vector<std::shared_ptr<const Page>> pages;
  std::vector<std::shared_ptr<const Arena>> texts;
};

void SetColumn(TF_OpKernelContext* context, int index, Column& column,
               const std::shared_ptr<const Kept>& kept) {
  const TF_DataType expected = Tf().ExpectedOutputDataType(context, index);
  if (expected != static_cast<TF_DataType>(column.dtype)) {
    throw Error(Code::kInternal, "output " + std::to_string(index) + " has dtype " +
                                     std::to_string(expected) + " but its column is " +
                                     DTypeName(column.dtype));
  }
  if (column.dtype == DType::kString) return SetOutput(context, index, column.shape, column.strings);
  if (column.lent != nullptr) {
    return SetOutput(context, index, column.dtype, column.shape, column.lent, column.lent_bytes, kept);
  }
  SetOutput(context, index, column.dtype, column.shape, std::move(column.data));
}

void SetBatch(TF_OpKernelContext* context, Batch batch) {
  int outputs = 0;
  for (const Column& column : batch.columns) {
    outputs += 1 + (column.splits.empty() ? 0 : 1) + (column.masked ? 1 : 0);
  }
  if (outputs != Tf().NumOutputs(context)) {
    throw Error(Code::kInternal,
                std::to_string(Tf().NumOutputs(context)) + " outputs for " + std::to_string(outputs));
  }
  const auto kept = std::make_shared<const Kept>(Kept{std::move(batch.pages), std::move(batch.texts)});
  int index = 0;
  for (Column& column : batch.columns) {
    SetColumn(context, index++, column, kept);
    if (!column.splits.empty()) SetOutput(context, index++, column.splits);
    if (column.masked) SetOutput(context, index++, DType::kBool, column.mask_shape, std::move(column.mask));
  }
}

void Next(TF_OpKernelContext* context) { SetBatch(context, FindPass(Int64Input(context, 0))->Take()); }

// Waits and takes in one: no rows yet = a batch without rows. Whoever cuts the batches into rows, or groups
// into batches, makes nothing of it and asks again.
void NextOrNothing(TF_OpKernelContext* context) {
  const std::shared_ptr<Pass> pass = FindPass(Int64Input(context, 0));
  const Scan::State state = pass->Prepare(kLongestWait);
  if (state == Scan::State::kEnd) return Fail(context, Code::kOutOfRange, "end of the pass");
  SetBatch(context, state == Scan::State::kReady ? pass->Take() : pass->Nothing());
}

void Close(TF_OpKernelContext* context) {
  RemovePass(Int64Input(context, 0));
  SetScalar(context, 0, std::int64_t{0});
}

struct OpDefinition {
  const char* name;
  std::vector<const char*> attributes;
  std::vector<const char*> inputs;
  std::vector<const char*> outputs;
  void (*compute)(void*, TF_OpKernelContext*);
};

const std::vector<OpDefinition>& Ops() {
  static const auto* ops = new std::vector<OpDefinition>{
      {"IgniteStrategyOpen",
       {},
       {"config: string", "host: string", "port: int32", "partitions: int32"},
       {"pass: int64"},
       Compute<Open>},
      {"IgniteStrategyWait", {}, {"pass: int64"}, {"ready: bool"}, Compute<WaitForRows>},
      {"IgniteStrategyNext",
       {"Tcolumns: list(type) >= 1"},
       {"pass: int64"},
       {"columns: Tcolumns"},
       Compute<Next>},
      {"IgniteStrategyNextOrNothing",
       {"Tcolumns: list(type) >= 1"},
       {"pass: int64"},
       {"columns: Tcolumns"},
       Compute<NextOrNothing>},
      {"IgniteStrategyClose", {}, {"pass: int64"}, {"closed: int64"}, Compute<Close>},
  };
  return *ops;
}

void Define(const OpDefinition& op, TF_Status* status) {
  TF_OpDefinitionBuilder* builder = Tf().NewOpDefinitionBuilder(op.name);
  for (const char* attribute : op.attributes) Tf().OpDefinitionBuilderAddAttr(builder, attribute);
  for (const char* input : op.inputs) Tf().OpDefinitionBuilderAddInput(builder, input);
  for (const char* output : op.outputs) Tf().OpDefinitionBuilderAddOutput(builder, output);
  Tf().OpDefinitionBuilderSetIsStateful(builder, true);
  Tf().OpDefinitionBuilderSetShapeInferenceFunction(
      builder, [](TF_ShapeInferenceContext* context, TF_Status* shape_status) {
        Tf().ShapeInferenceContextSetUnknownShape(context, shape_status);
      });
  Tf().RegisterOpDefinition(builder, status);
}

void RegisterKernel(const OpDefinition& op, TF_Status* status) {
  TF_KernelBuilder* builder = Tf().NewKernelBuilder(
      op.name, "CPU", [](TF_OpKernelConstruction*) -> void* { return nullptr; }, op.compute, [](void*) {});
  Tf().RegisterKernelBuilder(op.name, builder, status);
}

std::string Register() {
  const char* problem = nullptr;
  if (FindTensorFlow(&problem) == nullptr) return problem;
  std::string failure;
  TF_Status* status = Tf().NewStatus();
  for (const OpDefinition& op : Ops()) {
    Tf().SetStatus(status, TF_OK, "");
    Define(op, status);
    if (Tf().GetCode(status) == TF_OK) RegisterKernel(op, status);
    if (Tf().GetCode(status) != TF_OK) failure = std::string(op.name) + ": " + Tf().Message(status);
  }
  Tf().DeleteStatus(status);
  return failure;
}

// TensorFlow collects the ops that are registered while it loads a library.
const std::string* const registration = new std::string(Register());

}  // namespace
}  // namespace ignite_strategy

// Why the ops could not be registered; "" if they were.
IGNITE_STRATEGY_EXPORT const char* ignite_strategy_registration_problem() {
  return ignite_strategy::registration->c_str();
}

// Puts an entry into this library's table of secrets; null = not given. Returns whether there was memory for
// it.
IGNITE_STRATEGY_EXPORT bool ignite_strategy_put_secrets(const char* key, const char* username,
                                                        const char* password, const char* cert_password) {
  try {
    ignite_strategy::Secrets secrets;
    if (username != nullptr) secrets.username = username;
    if (password != nullptr) secrets.password = password;
    if (cert_password != nullptr) secrets.cert_password = cert_password;
    ignite_strategy::PutSecrets(key, secrets);
    return true;
  } catch (...) {
    return false;
  }
}

// What is in the cache now counts as whole, whatever was lost.
IGNITE_STRATEGY_EXPORT void ignite_strategy_forget_owners(const char* cache) {
  try {
    ignite_strategy::ForgetOwners(cache);
  } catch (...) {
    // No memory: the loss stays known.
  }
}

// Writes the report (JSON) and a terminating zero if it fits into `size` bytes; returns the bytes it needs.
IGNITE_STRATEGY_EXPORT std::size_t ignite_strategy_reader_report(char* out, std::size_t size) {
  try {
    const std::string report = ignite_strategy::ReaderReport();
    if (out != nullptr && report.size() < size) std::copy_n(report.c_str(), report.size() + 1, out);
    return report.size() + 1;
  } catch (...) {
    return 0;
  }
}
