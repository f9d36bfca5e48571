// Rows become tensors.
#ifndef IGNITE_STRATEGY_TESTS_FUZZ_NATIVE_ROWS_H_
#define IGNITE_STRATEGY_TESTS_FUZZ_NATIVE_ROWS_H_

#include <cstdint>

#include "native/binary/decoder.h"
#include "native/scan/config.h"

namespace ignite_strategy {

// Decodes all rows at `reader`, at most `most` of them, into batches, and makes tensors of them. Throws the
// error that ends it, after what was read until then has become tensors too.
void MakeBatches(const ScanConfig& config, RowDecoder& decoder, Reader reader, std::int64_t most);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_TESTS_FUZZ_NATIVE_ROWS_H_
