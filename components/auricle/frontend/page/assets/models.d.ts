// Parts of /v1/models. Written by `make interfaces`; not to be edited.

/**
 * The optional annotations of a deployment, and its languages, as `GET /v1/models` shows them.
 *
 * `words` and `speakers` are true if there is a model for them. `translate` lists the target
 * languages as ISO 639-1 codes: empty if any may be requested or they are not known here
 * (`Common.translate_targets` can list them), null without a translator. `vocabulary` is the
 * number of words of a model with a small vocabulary, such as the bundled one; null for others.
 * `languages` are the understood languages as ISO 639-1 codes; empty if not known here.
 */
export interface ServerCapabilities {
  words: boolean;
  speakers: boolean;
  translate: readonly string[] | null;
  vocabulary: number | null;
  languages: readonly string[];
}
