// EndpointBackend: removing, renaming and replacing entries.
#include "native/igfs/endpoint_backend.h"
#include "native/igfs/endpoint_names.h"

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

constexpr int kReplaceAttempts = 20;

bool IsBelow(const Path& path, const Path& directory) {
  if (path.size() <= directory.size()) return false;
  for (std::size_t i = 0; i < directory.size(); ++i) {
    if (path[i] != directory[i]) return false;
  }
  return true;
}

}  // namespace

bool EndpointBackend::Delete(const Path& path, bool recursive, const Wait& wait) {
  const std::string where = FormatPath(path);
  return client_.Run(wait, [&](Connection& connection, bool again) {
    connection.Call(Command::kDelete, Request().PutPaths(where, "", recursive), ResultType::kBool,
                    "removing " + where, wait);
    return connection.ReadBool(wait) || again;  // the first attempt may have removed it
  });
}

void EndpointBackend::Move(const Path& from, const Path& to, const Wait& wait) {
  const std::string source = FormatPath(from), target = FormatPath(to);
  client_.Run(wait, [&](Connection& connection, bool again) {
    try {
      connection.Call(Command::kRename, Request().PutPaths(source, target, false), ResultType::kBool,
                      "renaming " + source + " to " + target, wait);
      connection.ReadBool(wait);
    } catch (const ServerError& error) {
      // The first attempt may have moved it.
      if (!again || error.refusal() != Refusal::kNotFound || !Info(to, wait)) throw;
    }
  });
}

void EndpointBackend::Replace(const Path& from, const Path& to, const Wait& wait) {
  const Path replaced = Sibling(to, ReplacedName(to.back()));
  for (int attempt = 0; attempt < kReplaceAttempts; ++attempt) {
    try {
      Move(from, to, wait);
      // Whether it was put there now or by a writer that died on the way.
      Delete(replaced, false, wait);
      return;
    } catch (const ServerError& error) {
      if (error.refusal() != Refusal::kAlreadyExists) throw;
    }
    try {
      Move(to, replaced, wait);
    } catch (const ServerError& error) {
      // Of a writer that died, or of one that is a step ahead and whose file is at `to` now.
      if (error.refusal() == Refusal::kAlreadyExists) {
        Delete(replaced, false, wait);
      } else if (error.refusal() != Refusal::kNotFound) {
        throw;
      }
    }
  }
  throw Error(Code::kAborted, Describe(to) + " could not be replaced: other writers keep replacing it");
}

void EndpointBackend::RemoveFile(const Path& path, const Wait& wait) {
  const Found found = Need(path, wait);
  if (found.info.is_directory) {
    throw Error(Code::kFailedPrecondition, Describe(path) + " is a directory, not a file");
  }
  // An old version that a dead writer has left would be found in its place.
  if (found.at == path) Delete(Sibling(path, ReplacedName(path.back())), false, wait);
  if (!Delete(found.at, false, wait)) ExplainMissing(path, wait);
}

bool EndpointBackend::RemoveOrphan(const Path& path, std::int64_t mtime, const Wait& wait) {
  const std::string where = FormatPath(path);
  try {
    const bool same = client_.Run(wait, [&](Connection& connection, bool) {
      // The server lets nobody in whose file is open for writing, and closes that of a writer that is gone.
      connection.Call(Command::kOpenAppend, Request().PutPaths(where, "", false), ResultType::kLong,
                      "looking for the writer of " + where, wait);
      const std::int64_t stream = connection.ReadLong(wait);
      connection.Call(Command::kInfo, Request().PutPaths(where, "", false), ResultType::kFile,
                      "looking at " + where, wait);
      const auto info = connection.ReadFile(wait);
      connection.Await(connection.SendClose(stream, nullptr, 0, wait), ResultType::kBool, "closing " + where,
                       wait);
      connection.ReadBool(wait);
      return info && info->mtime == mtime;
    });
    return same && Delete(path, false, wait);
  } catch (const ServerError& error) {
    return error.refusal() == Refusal::kNotFound;
  }
}

std::string EndpointBackend::RemoveEmpty(const Path& path, const Wait& wait) {
  const auto remove = [&] {
    try {
      if (!Delete(path, false, wait)) ExplainMissing(path, wait);
      return true;
    } catch (const ServerError& error) {
      if (error.refusal() != Refusal::kNotEmpty) throw;
      return false;
    }
  };
  if (remove()) return "";
  bool entries = false, writers = false;
  for (const FileInfo& info : ListRaw(path, wait)) {
    Path entry = path;
    entry.push_back(info.path.substr(info.path.rfind('/') + 1));
    if (!IsUnpublished(entry.back())) {
      entries = true;
    } else if (!RemoveOrphan(entry, info.mtime, wait)) {
      writers = true;
    }
  }
  if (!entries && !writers && remove()) return "";
  if (entries || !writers) return " is not empty";
  // The server takes the file of a node that is gone for open.
  return " is not empty: a file in it is being written, or was when a node was lost; removing the directory "
         "with "
         "everything in it removes that, too";
}

void EndpointBackend::RemoveDirectory(const Path& path, const Wait& wait) {
  const Found found = Need(path, wait);
  if (!found.info.is_directory) throw NotADirectory(path);
  if (path.empty()) {
    throw Error(Code::kFailedPrecondition, Describe(path) + " is the root, which cannot be removed");
  }
  const std::string why = RemoveEmpty(path, wait);
  if (!why.empty()) throw Error(Code::kFailedPrecondition, Describe(path) + why);
}

void EndpointBackend::RemoveTree(const Path& path, const Wait& wait) {
  const Found found = Need(path, wait);
  if (!found.info.is_directory) return RemoveFile(path, wait);
  if (path.empty()) {
    throw Error(Code::kFailedPrecondition, Describe(path) + " is the root, which cannot be removed");
  }
  if (!Delete(path, true, wait)) ExplainMissing(path, wait);
}

void EndpointBackend::Rename(const Path& from, const Path& to, const Wait& wait) {
  if (from.empty() || to.empty()) {
    throw Error(Code::kInvalidArgument, Describe({}) + ": the root can neither be renamed nor replaced");
  }
  CheckEndpointPath(to);
  const Found source = Need(from, wait);
  if (from == to) return;
  if (IsBelow(to, from)) {
    if (!source.info.is_directory) throw NotADirectory(from);
    throw Error(Code::kInvalidArgument, Describe(from) + " cannot be moved into itself, to " + Describe(to));
  }
  const auto target = Find(to, wait);
  if (!target) NeedParent(to, wait);
  if (!source.info.is_directory) {
    if (target && target->info.is_directory) {
      throw Error(Code::kFailedPrecondition,
                  Describe(to) + " is a directory and cannot be replaced by a file");
    }
    if (source.at == from) Delete(Sibling(from, ReplacedName(from.back())), false, wait);
    return Replace(source.at, to, wait);
  }
  if (target && !target->info.is_directory) throw NotADirectory(to);
  const std::string why = target ? RemoveEmpty(to, wait) : "";
  if (!why.empty()) throw Error(Code::kFailedPrecondition, Describe(to) + " cannot be replaced: it" + why);
  Move(from, to, wait);
}

}  // namespace igfs
}  // namespace ignite_strategy
