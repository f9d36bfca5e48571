// Requests that run a statement.
#ifndef IGNITE_STRATEGY_NATIVE_SCAN_SQL_REQUEST_H_
#define IGNITE_STRATEGY_NATIVE_SCAN_SQL_REQUEST_H_

#include <string>
#include <vector>

#include "native/scan/config.h"
#include "native/wire/connection.h"

namespace ignite_strategy {

constexpr std::int16_t kQuerySqlFields = 2004;

// What is the same for all rows of an answer.
struct SqlOptions {
  std::int32_t page_rows = 1024;
  bool lazy = false;                       // the server keeps one page, not the whole result
  bool names = false;                      // the first page begins with the names of the columns
  const Partitions* partitions = nullptr;  // null = all; others need Feature::kQueryPartitions
};

// The payload of kQuerySqlFields. `cache`: whose partitions are meant; may be empty.
Writer SqlRequest(const Connection& connection, const std::string& cache, const SqlQuery& sql,
                  const SqlOptions& options);

// The values of a short result of `columns` columns of text, row by row; NULL is "". Nothing if the server
// refuses the statement, or answers with another number of columns. Nothing else may be outstanding.
std::vector<std::string> SqlTexts(Connection& connection, const std::string& cache, const SqlQuery& sql,
                                  std::int32_t columns, const std::string& doing, const Wait& wait);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_SCAN_SQL_REQUEST_H_
