import { isObject, parseJson } from '../../core/json.ts';
import { noUsage, promptTokens, totalTokens, type Usage } from '../../core/usage.ts';
import type { ReplyIdentity, ReplyRelay } from '../../dialects/dialect.ts';
import { noFacts } from '../../upstream/try-whole.ts';

/** The one image of an answer, and what was said about it. */
export interface ImageAnswer {
  readonly image: Readonly<Record<string, unknown>>;
  readonly about: Readonly<Record<string, unknown>>;
  readonly usage: Usage | undefined;
  readonly usageDetails: Readonly<Record<string, unknown>>;
}

export function relayOf(
  { image, about, usage, usageDetails }: ImageAnswer,
  { created, model }: ReplyIdentity,
): ReplyRelay {
  return {
    facts: { ...noFacts, usage },
    write: (closing) =>
      JSON.stringify({
        created,
        model,
        data: [image],
        ...about,
        usage: { ...writeUsage(closing.usage), ...usageDetails },
      }),
  };
}

/** Chat's names, and those that OpenAI's libraries look for in the answer to an image. */
function writeUsage(usage: Usage) {
  const [input, output] = [promptTokens(usage), usage.outputTokens];
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: totalTokens(usage),
    input_tokens: input,
    output_tokens: output,
  };
}

export function readRecorded(text: string): ImageAnswer | undefined {
  const recorded = parseJson(text);
  if (!isObject(recorded)) return undefined;
  const part = (name: string) => {
    const value = recorded[name];
    return isObject(value) ? value : {};
  };
  return {
    image: part('image'),
    about: part('about'),
    usage: { ...noUsage, ...part('usage') },
    usageDetails: part('usageDetails'),
  };
}
