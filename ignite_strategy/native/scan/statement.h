// Whether a statement may be run over some partitions, so that tasks share its rows.
#ifndef IGNITE_STRATEGY_NATIVE_SCAN_STATEMENT_H_
#define IGNITE_STRATEGY_NATIVE_SCAN_STATEMENT_H_

#include <optional>
#include <string>
#include <vector>

#include "native/scan/config.h"
#include "native/wire/connection.h"

namespace ignite_strategy {

// Why the rows over all partitions would not be those over each of them put together, by what EXPLAIN says:
// the queries that run where the data is, and last the one that puts their results together. Nothing = they
// would be.
std::optional<std::string> WhyIndivisible(const std::vector<std::string>& plan);

// Throws Error(kInvalidArgument) if tasks cannot share the statement. A server that cannot explain it decides
// itself. Nothing may be outstanding on `connection`.
void CheckDivisible(Connection& connection, const std::string& cache, const SqlQuery& sql, const Wait& wait);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_SCAN_STATEMENT_H_
