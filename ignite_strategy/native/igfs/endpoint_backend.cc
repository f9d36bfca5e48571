// EndpointBackend: looking, and creating directories. What changes entries is in endpoint_changes.cc.
#include "native/igfs/endpoint_backend.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <set>

#include "native/igfs/endpoint_names.h"
#include "native/igfs/endpoint_reader.h"
#include "native/igfs/endpoint_writer.h"

namespace ignite_strategy {
namespace igfs {

using endpoint::Command;
using endpoint::Connection;
using endpoint::FileInfo;
using endpoint::Refusal;
using endpoint::Request;
using endpoint::ResultType;
using endpoint::ServerError;

namespace {

constexpr std::size_t kOrphansAtOnce = 8;

Status StatusOf(const FileInfo& info) { return {info.is_directory, info.length, info.mtime * 1'000'000}; }

// The last component of an entry's path in this directory; nothing for what is not in it, or has a name that
// must not be.
std::optional<std::string> NameIn(const std::string& directory, const std::string& path) {
  const std::string stem = directory == "/" ? directory : directory + "/";
  if (path.compare(0, stem.size(), stem) != 0) return std::nullopt;
  std::string name = path.substr(stem.size());
  if (!ValidName(name)) return std::nullopt;
  return name;
}

}  // namespace

std::shared_ptr<EndpointBackend> EndpointBackend::Mount(const Target& target) {
  // Never destroyed: TensorFlow closes files while the process exits.
  static auto* mutex = new std::mutex;
  static auto* backends = new std::map<std::string, std::shared_ptr<EndpointBackend>>;
  const std::string key = target.ToString() + " " + std::to_string(target.options.writer_lease.count());
  const std::lock_guard<std::mutex> lock(*mutex);
  std::shared_ptr<EndpointBackend>& backend = (*backends)[key];
  if (!backend) backend = std::make_shared<EndpointBackend>(target);
  return backend;
}

EndpointBackend::EndpointBackend(Target target)
    : target_(std::move(target)), client_(target_.endpoints, target_.file_system) {}

std::optional<FileInfo> EndpointBackend::Info(const Path& path, const Wait& wait) {
  const std::string where = FormatPath(path);
  return client_.Run(wait, [&](Connection& connection, bool) {
    connection.Call(Command::kInfo, Request().PutPaths(where, "", false), ResultType::kFile,
                    "looking at " + where, wait);
    return connection.ReadFile(wait);
  });
}

std::optional<Found> EndpointBackend::Find(const Path& path, const Wait& wait) {
  CheckEndpointPath(path);
  // Between the first two questions its replacement may have come: then the third finds that.
  for (int look = 1;; ++look) {
    if (auto info = Info(path, wait)) return Found{path, std::move(*info)};
    if (path.empty()) throw Error(Code::kUnavailable, Describe(path) + ": IGFS says that it has no root");
    if (look == 2) return std::nullopt;
    const Path replaced = Sibling(path, ReplacedName(path.back()));
    auto info = Info(replaced, wait);
    if (info && !info->is_directory) return Found{replaced, std::move(*info)};
  }
}

Error EndpointBackend::NotADirectory(const Path& path) const {
  return Error(Code::kFailedPrecondition, Describe(path) + " is a file, not a directory");
}

// The server says "not found" also for what is below a file.
void EndpointBackend::ExplainMissing(const Path& path, const Wait& wait) {
  for (Path above = path; above.size() > 1;) {
    above.pop_back();
    const auto info = Info(above, wait);
    if (info && !info->is_directory) throw NotADirectory(above);
    if (info) break;
  }
  throw Error(Code::kNotFound, Describe(path) + ": no such file or directory");
}

Found EndpointBackend::Need(const Path& path, const Wait& wait) {
  auto found = Find(path, wait);
  if (!found) ExplainMissing(path, wait);
  return std::move(*found);
}

void EndpointBackend::NeedParent(const Path& path, const Wait& wait) {
  if (path.size() < 2) return;
  const Path above(path.begin(), path.end() - 1);
  if (!Need(above, wait).info.is_directory) throw NotADirectory(above);
}

Status EndpointBackend::GetStatus(const Path& path, const Wait& wait) {
  return StatusOf(Need(path, wait).info);
}

std::vector<FileInfo> EndpointBackend::ListRaw(const Path& path, const Wait& wait) {
  const std::string where = FormatPath(path);
  std::vector<FileInfo> files;
  try {
    files = client_.Run(wait, [&](Connection& connection, bool) {
      connection.Call(Command::kListFiles, Request().PutPaths(where, "", false), ResultType::kFiles,
                      "listing " + where, wait);
      return connection.ReadFiles(wait);
    });
  } catch (const ServerError& error) {
    if (error.refusal() == Refusal::kNotFound) ExplainMissing(path, wait);
    if (!error.MayPass()) throw;
    throw Error(error.code(), error.message() +
                                  " (so it says of a directory with an entry whose name it cannot read back, "
                                  "one that begins with '~' or has ':' as its second character)");
  }
  // Of a file it lists the file itself.
  if (files.size() == 1 && !files.front().is_directory && files.front().path == where)
    throw NotADirectory(path);
  return files;
}

std::vector<std::pair<std::string, Status>> EndpointBackend::List(const Path& path, const Wait& wait) {
  CheckEndpointPath(path);
  const std::string directory = FormatPath(path);
  std::map<std::string, Status> entries, replaced;
  std::vector<FileInfo> unpublished;
  for (FileInfo& info : ListRaw(path, wait)) {
    const auto name = NameIn(directory, info.path);
    if (!name) continue;
    if (IsUnpublished(*name)) {
      unpublished.push_back(std::move(info));
    } else if (IsReplaced(*name)) {
      if (!info.is_directory) replaced.emplace(NameOfReplaced(*name), StatusOf(info));
    } else {
      entries.emplace(*name, StatusOf(info));
    }
  }
  entries.merge(replaced);  // as far as nothing is there under the name
  if (!unpublished.empty()) CollectOrphans(path, unpublished, wait);
  return {entries.begin(), entries.end()};
}

void EndpointBackend::CollectOrphans(const Path& path, const std::vector<FileInfo>& unpublished,
                                     const Wait& wait) {
  const auto now = std::chrono::duration_cast<Millis>(std::chrono::system_clock::now().time_since_epoch());
  std::size_t removed = 0;
  for (const FileInfo& info : unpublished) {
    if (now - Millis(info.mtime) < target_.options.writer_lease || ++removed > kOrphansAtOnce) continue;
    Path orphan = path;
    orphan.push_back(info.path.substr(info.path.rfind('/') + 1));
    try {
      RemoveOrphan(orphan, info.mtime, wait);
    } catch (const Error& error) {  // the listing is right without it
      if (error.code() == Code::kCancelled) throw;
    }
  }
}

void EndpointBackend::MakeDirectory(const Path& path, const Wait& wait) {
  if (path.empty()) throw Error(Code::kAlreadyExists, Describe(path) + " is the root");
  if (Find(path, wait)) throw Error(Code::kAlreadyExists, Describe(path) + " exists already");
  NeedParent(path, wait);
  MakeDirectories(path, wait);
}

void EndpointBackend::MakeDirectories(const Path& path, const Wait& wait) {
  CheckEndpointPath(path);
  if (path.empty()) return;
  const std::string where = FormatPath(path);
  try {
    client_.Run(wait, [&](Connection& connection, bool) {
      connection.Call(Command::kMakeDirectories, Request().PutPaths(where, "", false), ResultType::kBool,
                      "creating the directory " + where, wait);
      connection.ReadBool(wait);
    });
  } catch (const ServerError& error) {
    if (error.refusal() != Refusal::kParentNotDirectory) throw;
    throw Error(
        Code::kFailedPrecondition,
        Describe(path) + " cannot be a directory: it, or something above it, is a file, not a directory");
  }
}

std::unique_ptr<ReadableFile> EndpointBackend::OpenRead(const Path& path, const Wait& wait) {
  return EndpointReader::Open(shared_from_this(), path, wait);
}

std::unique_ptr<WritableFile> EndpointBackend::OpenWrite(const Path& path, Mode mode, const Wait& wait) {
  return EndpointWriter::Open(shared_from_this(), path, mode, wait);
}

}  // namespace igfs
}  // namespace ignite_strategy
