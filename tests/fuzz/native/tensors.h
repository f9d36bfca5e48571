// Decoded columns as tensors of a TensorFlow that is none: it checks what the real one relies on.
#ifndef IGNITE_STRATEGY_TESTS_FUZZ_NATIVE_TENSORS_H_
#define IGNITE_STRATEGY_TESTS_FUZZ_NATIVE_TENSORS_H_

#include <vector>

#include "native/binary/columns.h"

namespace ignite_strategy {

// Makes tensors of them and reads every byte of each. Ends the process if a tensor's bytes are not those that
// its shape needs.
void MakeTensors(std::vector<Column> columns);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_TESTS_FUZZ_NATIVE_TENSORS_H_
