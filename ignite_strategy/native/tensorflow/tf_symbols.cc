#include "native/tensorflow/tf_symbols.h"

#include <dlfcn.h>

#include <string>

namespace ignite_strategy {
namespace {

struct Lookup {
  TfSymbols symbols;
  std::string problem;
};

void* Library() {
  // Never loads it: what counts is the copy that the process's TensorFlow uses.
  for (const char* name : {"libtensorflow_framework.so.2", "libtensorflow_framework.2.dylib"}) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_NOLOAD)) return library;
  }
  return nullptr;
}

Lookup Find() {
  Lookup lookup;
  void* library = Library();
  if (library == nullptr) {
    lookup.problem = "TensorFlow is not loaded: import tensorflow first";
    return lookup;
  }
  const auto find = [&](const char* name) {
    void* symbol = dlsym(library, name);
    if (symbol == nullptr && lookup.problem.empty()) {
      lookup.problem = std::string("this TensorFlow has no C function ") + name;
    }
    return symbol;
  };
#define IGNITE_STRATEGY_FIND(name) \
  lookup.symbols.name = reinterpret_cast<decltype(lookup.symbols.name)>(find("TF_" #name));
  IGNITE_STRATEGY_TF_SYMBOLS(IGNITE_STRATEGY_FIND)
#undef IGNITE_STRATEGY_FIND
  return lookup;
}

// Never destroyed: kernels may still run while the process exits.
const Lookup& Found() {
  static const auto* found = new Lookup(Find());
  return *found;
}

}  // namespace

const TfSymbols* FindTensorFlow(const char** problem) {
  const Lookup& found = Found();
  if (found.problem.empty()) return &found.symbols;
  *problem = found.problem.c_str();
  return nullptr;
}

const TfSymbols& Tf() { return Found().symbols; }

}  // namespace ignite_strategy
