// Parts of /v1/models. Written by `make interfaces`; not to be edited.

/**
 * What a session may ask for beside text, and in which languages.
 *
 * `words` and `speakers` say whether there is a model for them. `translate` has the languages into
 * which is translated, as ISO 639-1 codes: empty if any may be asked for or it is not known here
 * (`Common.translate_targets` says it then), null without a translator. `vocabulary` is how many
 * words a model knows that knows few, as the bundled one does; null for ordinary speech.
 * `languages` are those that are understood, as ISO 639-1 codes; empty if not known here.
 */
export interface ServerCapabilities {
  words: boolean;
  speakers: boolean;
  translate: readonly string[] | null;
  vocabulary: number | null;
  languages: readonly string[];
}
