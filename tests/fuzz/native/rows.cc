#include "tests/fuzz/native/rows.h"

#include <optional>
#include <utility>
#include <vector>

#include "native/binary/columns.h"
#include "tests/fuzz/native/tensors.h"

namespace ignite_strategy {

void MakeBatches(const ScanConfig& config, RowDecoder& decoder, Reader reader, std::int64_t most) {
  constexpr std::size_t kRows = 16;
  const std::size_t bytes = reader.left();
  std::optional<BatchBuilder> builder(std::in_place, config.columns, kRows, bytes);
  std::vector<Slot> slots(config.columns.size());
  std::vector<Arena> texts;
  std::optional<Error> error;
  try {
    for (; reader.left() > 0 && most > 0; --most) {
      const Reader row = reader;
      if (!decoder.Locate(reader, slots)) continue;
      if (!builder->Fits(slots)) {
        texts.push_back(decoder.TakeTexts());
        MakeTensors(builder->Finish());
        builder.emplace(config.columns, kRows, bytes);
      }
      const int wrong = builder->Append(slots);
      if (wrong >= 0) {
        const auto column = static_cast<std::size_t>(wrong);
        throw decoder.WrongLength(row, config.columns[column], slots[column].count, builder->length(column));
      }
    }
  } catch (const Error& failure) {
    error = failure;
  }
  texts.push_back(decoder.TakeTexts());
  if (builder->rows() > 0) MakeTensors(builder->Finish());
  if (error) throw *error;
}

}  // namespace ignite_strategy
