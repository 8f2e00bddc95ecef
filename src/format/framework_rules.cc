#include "format/framework_rules.h"

namespace cairn {
namespace {

const char kStep[] = R"((?P<step>\d+))";

// A rank may start to write minutes after another; without a marker, this is
// how long a directory has to rest.
constexpr absl::Duration kMarkerlessQuiet = absl::Seconds(60);

// `first`, and then what applies to files in general.
std::vector<Check> With(std::vector<Check> first) {
  const std::vector<Check>& all = StructuralChecks();
  first.insert(first.end(), all.begin(), all.end());
  return first;
}

std::string Numbered(std::string_view before, std::string_view after = "") {
  return std::string(before) + kStep + std::string(after);
}

std::vector<DirectoryRule> Megatron() {
  const std::vector<std::string> names = {R"(iter_(?P<step>\d{7,}))",
                                          "release"};
  const std::vector<PointerTemplate> pointers = {
      {"latest_checkpointed_iteration.txt", "{step_or_name}"}};
  return {
      {.name = "megatron-dist",
       .summary = "Megatron Core torch_dist: iter_NNNNNNN, complete with "
                  "metadata.json, which is written after .metadata",
       .names = names,
       .sure = {"metadata.json"},
       .hints = {".metadata", "*.distcp", "common.pt", ".metadata.tmp",
                 "metadata.json"},
       .unless = {"mp_rank_*/"},
       .sure_needs_backend = true,
       .completion = {.complete = {"metadata.json"},
                      .unfinished = {".metadata.tmp"},
                      .checks = With({Check::kMegatronBackend}),
                      .pointers = pointers}},
      {.name = "megatron-legacy",
       .summary = "Megatron legacy: iter_NNNNNNN with mp_rank_* directories, "
                  "complete with all of them and a tracker that is not behind",
       .names = names,
       .hints = {"mp_rank_*/"},
       .completion = {.proof = Proof::kStructure,
                      .checks = With({Check::kMegatronRanks}),
                      .pointers = pointers}},
  };
}

std::vector<DirectoryRule> Trainers() {
  return {
      {.name = "huggingface",
       .summary = "Hugging Face Trainer: checkpoint-N, complete with "
                  "trainer_state.json whose global_step is N",
       .names = {Numbered("checkpoint-")},
       .sure = {"trainer_state.json"},
       .hints = {"config.json", "*.safetensors", "*.safetensors.index.json",
                 "pytorch_model*.bin", "optimizer.pt", "scheduler.pt",
                 "rng_state*.pth", "training_args.bin", "adapter_config.json",
                 "tokenizer_config.json", "pytorch_model_fsdp_*/",
                 "global_step*/"},
       .unless = {"random_states_*.pkl"},
       .completion = {.complete = {"trainer_state.json"},
                      .checks = With({Check::kTrainerState, Check::kInnerLatest,
                                      Check::kWeights})}},
      {.name = "torchtitan",
       .summary = "torchtitan: step-N, complete with .metadata or "
                  "model.safetensors.index.json",
       .names = {Numbered("step-")},
       .hints = {".metadata", "*.distcp", ".metadata.tmp", "sharded/",
                 "model.safetensors.index.json"},
       .completion = {.complete = {".metadata|model.safetensors.index.json"},
                      .unfinished = {".metadata.tmp"},
                      .checks = With({})}},
      {.name = "deepspeed",
       .summary =
           "DeepSpeed: global_stepN or any tag, complete with the states "
           "of all ranks",
       .names = {Numbered("global_step")},
       .sure = {"*_model_states.pt", "*_optim_states.pt"},
       .hints = {"*_states.pt"},
       .unless = {"random_states_*.pkl"},
       .completion = {.proof = Proof::kStructure,
                      .checks = With({}),
                      .pointers = {{"latest", "{name}"}}}},
      {.name = "accelerate",
       .summary = "accelerate: checkpoint_N (N counts saves), complete with "
                  "random_states_R.pkl of all ranks",
       .names = {Numbered("checkpoint_")},
       .sure = {"random_states_*.pkl"},
       .hints = {"optimizer*.bin", "scheduler*.bin", "pytorch_model*.bin",
                 "*.safetensors", "pytorch_model_fsdp_*/", "optimizer_*/"},
       .completion = {.proof = Proof::kStructure,
                      .complete = {"random_states_*.pkl"},
                      .checks = With({Check::kInnerLatest})}},
  };
}

std::vector<DirectoryRule> Lightning() {
  const std::vector<std::string> names = {
      R"((?:.*-)?epoch=(?P<epoch>\d+)-step=(?P<step>\d+)(?:-v\d+)?(?:\.ckpt)?)",
      R"(hpc_ckpt_(?P<step>\d+)\.ckpt)", R"(.+\.ckpt)"};
  return {
      {.name = "lightning-deepspeed",
       .summary = "Lightning with DeepSpeed: X.ckpt/checkpoint, complete with "
                  "X.ckpt/latest",
       .names = names,
       .hints = {"checkpoint/"},
       .completion = {.complete = {"latest"},
                      .checks = With(
                          {Check::kInnerLatest, Check::kLightningNumbers})}},
      {.name = "lightning-sharded",
       .summary = "Lightning FSDP or ModelParallel: X.ckpt as a directory, "
                  "complete with meta.pt, which is written after .metadata",
       .names = names,
       .sure = {"meta.pt"},
       .hints = {".metadata", "*.distcp", ".metadata.tmp"},
       .completion = {.complete = {"meta.pt", ".metadata|__*.metadata"},
                      .unfinished = {".metadata.tmp"},
                      .checks = With({Check::kLightningNumbers})}},
  };
}

std::vector<DirectoryRule> Others() {
  return {
      {.name = "nanotron",
       .summary = "nanotron: N, complete with model_config.json and "
                  "checkpoint_metadata.json, unchanged for a minute",
       .names = {kStep},
       .sure = {"checkpoint_metadata.json"},
       .hints = {"model_config.json"},
       .completion = {.proof = Proof::kQuiet,
                      .complete = {"model_config.json",
                                   "checkpoint_metadata.json"},
                      .quiet = kMarkerlessQuiet,
                      .checks = With({Check::kJsonMarkers}),
                      .pointers = {{"latest.txt", "{step}"}}}},
      {.name = "orbax",
       .summary = "Orbax: N or name_N, complete with commit_success.txt or a "
                  "commit time in _CHECKPOINT_METADATA",
       .names = {Numbered("(?:.+_)?")},
       .sure = {"_CHECKPOINT_METADATA", "manifest.ocdbt", "_METADATA"},
       .hints = {"default/"},
       .completion = {.complete = {"commit_success.txt|_CHECKPOINT_METADATA"},
                      .renamed_into_place = true,
                      .in_progress = {"*.orbax-checkpoint-tmp*"},
                      .checks = With({Check::kOrbaxCommit})}},
      {.name = "tensorflow-savedmodel",
       .summary = "TF SavedModel: complete with saved_model.pb",
       .names = {kStep},
       .sure = {"saved_model.pb", "saved_model.pbtxt"},
       .hints = {"variables/"},
       .completion = {.complete = {"saved_model.pb|saved_model.pbtxt"},
                      .checks = With({Check::kTableIndex})}},
      {.name = "torch-checkpointing",
       .summary = "torch_checkpointing: a directory that gets its name last, "
                  "with metadata.pkl",
       .names = StepNamePatterns(),
       .hints = {"metadata.pkl"},
       .completion = {.complete = {"metadata.pkl"}, .checks = With({})}},
      {.name = "dcp",
       .summary = "torch.distributed.checkpoint: complete with .metadata whose "
                  "files reach as far as it says",
       .sure = {".metadata", "*.distcp", "__*.metadata", ".metadata.tmp"},
       .completion = {.complete = {".metadata|__*.metadata"},
                      .unfinished = {".metadata.tmp"},
                      .checks = With({})}},
      {.name = "safetensors",
       .summary = "weights in shards: complete with their index, which is "
                  "written last",
       .sure = {"*.safetensors.index.json", "*.bin.index.json",
                "*-0*-of-0*.safetensors", "*-0*-of-0*.bin"},
       .completion = {.complete = {"*.safetensors.index.json|"
                                   "*.bin.index.json"},
                      .checks = With({})}},
  };
}

std::vector<FileRule> SetsOfFiles() {
  return {
      {.name = "tensorflow",
       .summary = "TF Checkpoint: prefix.index with all of its "
                  "prefix.data-N-of-M",
       .patterns = {{.globs = {"*.index", "*.meta", "*.data-*-of-*"},
                     .pattern = R"((?P<base>.+)\.(?:index|meta|)"
                                R"(data-\d{5}-of-\d{5}))",
                     .key = "{base}"}},
       .needs = {R"(.*\.data-\d{5}-of-\d{5})", R"(.*-\d+\.index)"},
       .completion = {.complete = {"{key}.index"},
                      .checks = {Check::kTableIndex, Check::kNumberedShards},
                      .pointers = {{"checkpoint",
                                    "model_checkpoint_path: \"{quoted_name}\"\n"
                                    "all_model_checkpoint_paths: "
                                    "\"{quoted_name}\"\n"}}}},
      {.name = "safetensors",
       .summary = "weights in shards: complete with their index",
       .patterns = {{.globs = {"*-0*-of-0*.safetensors"},
                     .pattern = R"((?P<base>.+)-\d{5}-of-\d{5}\.safetensors)",
                     .key = "{base}.safetensors.index.json"},
                    {.globs = {"*-0*-of-0*.bin"},
                     .pattern = R"((?P<base>.+)-\d{5}-of-\d{5}\.bin)",
                     .key = "{base}.bin.index.json"},
                    {.globs = {"*.safetensors.index.json",
                               "*.bin.index.json"}}},
       .completion = {.complete = {"{key}"},
                      .checks = {Check::kShardIndex, Check::kNumberedShards,
                                 Check::kFileFormats}}},
  };
}

std::vector<FileRule> SingleFiles() {
  return {
      {.name = "megatron-local",
       .summary = "Megatron local checkpoint of one rank: a whole torch file",
       .patterns = {{.globs = {"iter_*_local.pt"},
                     .pattern = R"(iter_(?P<step>\d{7,})_\d+_local\.pt)"}},
       .completion = {.proof = Proof::kStructure,
                      .checks = {Check::kFileFormats}}},
      {.name = "lightning",
       .summary = "Lightning: a whole torch file; step and epoch from its "
                  "content",
       .patterns = {{.globs = {"*epoch=*step=*.ckpt"},
                     .pattern =
                         R"((?:.*-)?epoch=(?P<epoch>\d+)-step=(?P<step>\d+))"
                         R"((?:-v\d+)?\.ckpt)"},
                    {.globs = {"last*.ckpt"},
                     .pattern = R"(last(?:-v\d+)?\.ckpt)"},
                    {.globs = {"hpc_ckpt_*.ckpt"},
                     .pattern = R"(hpc_ckpt_(?P<step>\d+)\.ckpt)"}},
       .completion = {.proof = Proof::kStructure,
                      .checks = {Check::kLightningNumbers,
                                 Check::kFileFormats}}},
      {.name = "safetensors",
       .summary = "one safetensors file, as long as its header says",
       .patterns = {{.globs = {"*.safetensors"}}},
       .completion = {.proof = Proof::kStructure,
                      .checks = {Check::kFileFormats}}},
      {.name = "keras",
       .summary = "one .keras file: a whole zip",
       .patterns = {{.globs = {"*.keras"}}},
       .completion = {.proof = Proof::kStructure,
                      .checks = {Check::kFileFormats}}},
      {.name = "torch",
       .summary = "one torch.save file: a whole zip with its directory",
       .patterns = {{.globs = {"*.pt", "*.pth", "*.ckpt", "pytorch_model*.bin",
                               "model*.bin", "optimizer*.bin",
                               "adapter_model*.bin"}}},
       .completion = {.proof = Proof::kStructure,
                      .checks = {Check::kLightningNumbers,
                                 Check::kFileFormats}}},
      {.name = "torch",
       .summary = "another .bin file that begins as torch.save does",
       .patterns = {{.globs = {"*.bin"}}},
       .needs_torch_content = true,
       .completion = {.proof = Proof::kStructure,
                      .checks = {Check::kFileFormats}}},
  };
}

}  // namespace

const std::vector<DirectoryRule>& DirectoryRules() {
  static const auto* const rules = [] {
    auto* all = new std::vector<DirectoryRule>;
    for (auto part : {Megatron(), Trainers(), Lightning(), Others()}) {
      all->insert(all->end(), part.begin(), part.end());
    }
    return all;
  }();
  return *rules;
}

const DirectoryRule& GenericDirectoryRule() {
  static const auto* const rule = new DirectoryRule{
      .name = "generic",
      .summary =
          "a directory with a step or an epoch in its name: complete "
          "with DONE, COMPLETE, _SUCCESS, .complete or "
          "commit_success.txt, or unchanged for the time that is set",
      .names = StepNamePatterns(),
      .completion = {.proof = Proof::kQuiet,
                     .at_once = {"DONE", "COMPLETE", "_SUCCESS", ".complete",
                                 "commit_success.txt"},
                     .checks = With({})}};
  return *rule;
}

const std::vector<FileRule>& FileRules() {
  static const auto* const rules = [] {
    auto* all = new std::vector<FileRule>(SetsOfFiles());
    for (const FileRule& rule : SingleFiles()) all->push_back(rule);
    return all;
  }();
  return *rules;
}

const std::vector<StagingRule>& StagingRules() {
  static const auto* const rules = new std::vector<StagingRule>{
      {"orbax", R"((?P<base>.*)\.orbax-checkpoint-tmp(?:-\d+)?)", true},
      {"orbax", R"((?P<base>.*)\.orbax-checkpoint-tmp.*)", true},
      {"huggingface", R"(tmp-(?P<base>checkpoint-\d+))", true},
      {"megatron-local", R"((?P<base>iter_.*_local)\.dirty\.pt)", true},
      {"torch-checkpointing", R"(tmp_(?P<base>.+))"},
      {"tensorflow", R"((?P<base>.+)_temp)"},
      {"generic", R"(tmp[-.](?P<base>.+))"},
      {"generic", R"(\.tmp[-_.]?(?P<base>.*))"},
      {"generic", R"(\.?(?P<base>.+)[-_.](?:tmp|temp|part|partial|incomplete|)"
                  R"(in-?progress|staging)(?:[-_.][0-9A-Za-z]+)?)"},
  };
  return *rules;
}

const std::vector<std::string>& StepNamePatterns() {
  static const auto* const names = new std::vector<std::string>{
      R"((?:.*[-_.])?epoch[-_=]?(?P<epoch>\d+)[-_.]+(?:global[-_]?)?)"
      R"(step[-_=]?(?P<step>\d+)(?:[-_.]v\d+)?)",
      R"((?:.*[-_.])?(?:global[-_]?)?steps?[-_=]?(?P<step>\d+))",
      R"((?:.*[-_.])?(?:ckpt|chkpt|checkpoint|iter|iteration|update|save))"
      R"([-_=]?(?P<step>\d+))",
      R"((?:.*[-_.])?epoch[-_=]?(?P<epoch>\d+))",
      R"(.*[-_.]step=(?P<step>\d+)[-_.].*)",
      kStep};
  return *names;
}

const std::vector<std::string>& NumberedFilePatterns() {
  static const auto* const names =
      new std::vector<std::string>{Numbered(".*[-_.]")};
  return *names;
}

const std::vector<std::string>& RankNamePatterns() {
  static const auto* const names = new std::vector<std::string>{
      R"(.*(?:rank|shard|part|worker|node|gpu|proc|process)[-_]?\d+)",
      R"(.*-of-\d+)"};
  return *names;
}

const std::vector<std::string>& CompanionFiles() {
  static const auto* const names = new std::vector<std::string>{
      "training_args.bin", "rng_state*.pth", "scheduler.pt",
      "scheduler*.bin",    "scaler.pt",      "sampler*.bin"};
  return *names;
}

const std::vector<std::string>& WeightSuffixes() {
  static const auto* const suffixes = new std::vector<std::string>{
      ".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".distcp"};
  return *suffixes;
}

const std::vector<Check>& StructuralChecks() {
  static const auto* const checks = new std::vector<Check>{
      Check::kDcpExtents,     Check::kDeepSpeedShards, Check::kShardIndex,
      Check::kNumberedShards, Check::kRankFiles,       Check::kFileFormats};
  return *checks;
}

}  // namespace cairn
