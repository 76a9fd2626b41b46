// The prompt's own words, phrase after phrase. What is said and how it is set is here; when is in src/theatre/state.json.
import { Phrase, type PhraseProps } from '../components/Phrase';

const phrases: readonly PhraseProps[] = __PHRASES__;

export function WordsScene() {
  return (
    <>
      {phrases.map((phrase) => (
        <Phrase key={phrase.name} {...phrase} />
      ))}
    </>
  );
}
