/** The turns of a dialogue as Bedrock's `system` and `messages`. */
import type { Turn } from '../../core/dialogue.ts';
import { inSides } from '../anthropic/sides.ts';
import type { Target } from '../dialect.ts';
import type { Block, ContentWriter } from './write-content.ts';

export function writeTurns(
  turns: readonly Turn[],
  writer: ContentWriter,
  target: Target,
  isThinking: boolean,
) {
  return inSides<Block>(turns, {
    text: (part) => writer.text(part),
    assistantPart: (part) => writer.assistantPart(part),
    userPart: (part) => writer.userPart(part),
    arrange: (content) => introduceDocuments(resultsFirst(content)),
    instructsInside: false,
    mustBeAsked: isThinking || target.thinking === 'adaptive',
  });
}

/** Puts all results of one turn first, each with the cache point that follows it. */
function resultsFirst(content: readonly Block[]): readonly Block[] {
  const isOfResult = content.map(
    (block, at) =>
      'toolResult' in block || ('cachePoint' in block && 'toolResult' in (content[at - 1] ?? {})),
  );
  const results = content.filter((_, at) => isOfResult[at]);
  return [...results, ...content.filter((_, at) => !isOfResult[at])];
}

/** Bedrock refuses a document without any text beside it. */
function introduceDocuments(content: readonly Block[]): readonly Block[] {
  if (!content.some((block) => 'document' in block)) return content;
  if (content.some((block) => 'text' in block)) return content;
  return [...content, { text: 'See the attached document.' }];
}
