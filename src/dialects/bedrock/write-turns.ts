/** The turns of a dialogue as Bedrock's `system` and `messages`. */
import type { Turn } from '../../core/dialogue.ts';
import type { Target } from '../dialect.ts';
import type { Block, ContentWriter } from './write-content.ts';

interface Message {
  readonly role: 'user' | 'assistant';
  readonly content: readonly Block[];
}

interface WrittenTurns {
  readonly system: readonly Block[];
  readonly messages: readonly Message[];
}

/** Stands for the user where Bedrock insists on a message of one. */
const pleaseContinue: Block = { text: 'Continue.' };

export function writeTurns(
  turns: readonly Turn[],
  writer: ContentWriter,
  target: Target,
  isThinking: boolean,
): WrittenTurns {
  const system: Block[] = [];
  const sides: { readonly role: Message['role']; readonly content: Block[] }[] = [];
  for (const turn of turns) {
    const content = writeTurn(turn, writer);
    if (content.length === 0) continue;
    const last = sides.at(-1);
    // Instructions have one place; neighbours of the same side become one message.
    if (turn.role === 'system') for (const block of content) system.push(block);
    else if (last?.role === turn.role) for (const block of content) last.content.push(block);
    else sides.push({ role: turn.role, content: [...content] });
  }
  const messages: Message[] = sides.map(({ role, content }) => ({
    role,
    content: role === 'user' ? introduceDocuments(resultsFirst(content)) : content,
  }));
  if (messages[0]?.role !== 'user') messages.unshift({ role: 'user', content: [pleaseContinue] });
  return { system, messages: endWell(messages, target, isThinking) };
}

function writeTurn(turn: Turn, writer: ContentWriter): readonly Block[] {
  switch (turn.role) {
    case 'system':
      return turn.parts.flatMap((part) => writer.text(part));
    case 'assistant':
      return turn.parts.flatMap((part) => writer.assistantPart(part));
    case 'user':
      return turn.parts.flatMap((part) => writer.userPart(part));
  }
}

/** All results of one turn stand together, each with the point for the cache that follows it. */
function resultsFirst(content: readonly Block[]): readonly Block[] {
  const isOfResult = content.map(
    (block, at) =>
      'toolResult' in block || ('cachePoint' in block && 'toolResult' in (content[at - 1] ?? {})),
  );
  const results = content.filter((_, at) => isOfResult[at]);
  return [...results, ...content.filter((_, at) => !isOfResult[at])];
}

/** Bedrock refuses a document that comes without a word. */
function introduceDocuments(content: readonly Block[]): readonly Block[] {
  if (!content.some((block) => 'document' in block)) return content;
  if (content.some((block) => 'text' in block)) return content;
  return [...content, { text: 'See the attached document.' }];
}

/**
 * A conversation that ends with the assistant asks for its continuation. Models that think want a
 * user's word for that; the others go on from the last letter, which must not be a space.
 */
function endWell(messages: readonly Message[], target: Target, isThinking: boolean) {
  const last = messages.at(-1);
  if (last?.role !== 'assistant') return messages;
  if (isThinking || target.thinking === 'adaptive') {
    return [...messages, { role: 'user' as const, content: [pleaseContinue] }];
  }
  const at = last.content.findLastIndex((block) => !('cachePoint' in block));
  const text = last.content[at]?.text;
  if (typeof text !== 'string') return messages;
  const content = last.content.with(at, { text: text.trimEnd() });
  return [...messages.slice(0, -1), { role: last.role, content }];
}
