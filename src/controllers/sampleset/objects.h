// The objects that a set is made of, as JSON. Pure.
#pragma once

#include <string>

#include "controllers/common/changes.h"
#include "controllers/sampleset/plan.h"

namespace paddleop::controllers::sampleset {

CreateObject VolumeObject(const api::SampleSet& set);
CreateObject ClaimObject(const api::SampleSet& set);
CreateObject ServiceObject(const api::SampleSet& set);
// The volume's Secret with trimmed values, where pods and the CSI driver find it. As a patch it
// also takes away what the source no longer has.
CreateObject VolumeSecretObject(const api::SampleSet& set, const api::SecretObject& source,
                                bool as_patch);
CreateObject StatefulSetObject(const Settings& settings, const api::SampleSet& set);

// Digest of everything a change of which must be rolled out.
std::string TemplateDigest(const Settings& settings, const api::SampleSet& set);
// Merge patch that gives an existing StatefulSet the present template.
std::string TemplatePatch(const Settings& settings, const api::SampleSet& set);

// Does the copy hold what the source says?
bool SameVolume(const api::SecretObject& copy, const api::SecretObject& source);

// Labels of everything that is made for the set.
api::StringMap ChildLabels(const api::SampleSet& set);

}  // namespace paddleop::controllers::sampleset
