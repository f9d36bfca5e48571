// fsck and df for Python.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <utility>

#include "native/igfs/check.h"
#include "native/igfs/tree.h"
#include "native/python/bindings.h"
#include "native/python/igfs_unlocked.h"

namespace nb = nanobind;

namespace ignite_strategy {
namespace {

nb::dict UsageDict(const igfs::Usage& usage) {
  nb::dict dict;
  dict["files"] = usage.files;
  dict["directories"] = usage.directories;
  dict["bytes"] = usage.bytes;
  dict["trash_blocks"] = usage.trash_blocks;
  dict["writers"] = usage.writers;
  dict["stored_blocks"] = usage.stored_blocks;
  return dict;
}

}  // namespace

nb::dict MeasureTree(igfs::Tree& tree) {
  return UsageDict(Unlocked([&](const Wait& wait) { return igfs::Checker(tree, {}).Measure(wait); }));
}

nb::dict CheckTree(igfs::Tree& tree, bool repair, bool offline, const nb::object& progress) {
  igfs::CheckOptions options;
  options.repair = repair;
  options.offline = offline;
  if (!progress.is_none()) {
    options.progress = [&progress](const char* step, std::uint64_t done, std::uint64_t all) {
      const nb::gil_scoped_acquire locked;
      progress(step, done, all);
    };
  }
  const igfs::CheckReport report =
      Unlocked([&](const Wait& wait) { return igfs::Checker(tree, std::move(options)).Run(wait); });
  nb::dict dict;
  dict["usage"] = UsageDict(report.usage);
  nb::list findings;
  for (const igfs::Finding& finding : report.findings)
    findings.append(nb::make_tuple(finding.path, finding.what, finding.repair));
  dict["findings"] = findings;
  dict["found"] = report.found;
  dict["collected_blocks"] = report.collected_blocks;
  return dict;
}

}  // namespace ignite_strategy
