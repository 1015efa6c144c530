/** Turns as Anthropic and Bedrock want them: instructions apart, user and assistant alternating. */
import type { AssistantPart, TextPart, Turn, UserPart } from '../../core/dialogue.ts';

interface Message<Block> {
  readonly role: Turn['role'];
  readonly content: readonly Block[];
}

interface Sides<Block> {
  readonly system: readonly Block[];
  readonly messages: readonly Message<Block>[];
}

/** How one of the two APIs writes turns. */
interface Words<Block> {
  text(part: TextPart): readonly Block[];
  assistantPart(part: AssistantPart): readonly Block[];
  userPart(part: UserPart): readonly Block[];
  /** The blocks of one message of the user's, in the order that this upstream takes. */
  arrange(content: readonly Block[]): readonly Block[];
  /** Instructions may also stand in the middle of the conversation. */
  readonly instructsInside: boolean;
  /**
   * The model does not continue a last answer by itself, as while it thinks: the user has to ask.
   */
  readonly mustBeAsked: boolean;
}

/** What the user says where the API insists on a user's message and there is none. */
const pleaseContinue: TextPart = { kind: 'text', text: 'Continue.' };

export function inSides<Block extends Readonly<Record<string, unknown>>>(
  turns: readonly Turn[],
  words: Words<Block>,
): Sides<Block> {
  const system: Block[] = [];
  const sides: { readonly role: Turn['role']; readonly content: Block[] }[] = [];
  for (const turn of turns) {
    const content = writeTurn(turn, words);
    if (content.length === 0) continue;
    const last = sides.at(-1);
    const isInside = words.instructsInside && last !== undefined;
    // Turns of one side in a row become one message; each block is copied once, not once per turn.
    if (turn.role === 'system' && !isInside) for (const block of content) system.push(block);
    else if (last?.role === turn.role) for (const block of content) last.content.push(block);
    else sides.push({ role: turn.role, content: [...content] });
  }
  const messages: Message<Block>[] = sides.map(({ role, content }) => ({
    role,
    content: role === 'user' ? words.arrange(content) : content,
  }));
  const asked = { role: 'user' as const, content: words.text(pleaseContinue) };
  if (messages[0]?.role !== 'user') messages.unshift(asked);
  const last = messages.at(-1);
  if (last?.role !== 'assistant') return { system, messages };
  if (words.mustBeAsked) return { system, messages: [...messages, asked] };
  return { system, messages: messages.with(-1, withoutLastSpace(last)) };
}

function writeTurn<Block>(turn: Turn, words: Words<Block>): readonly Block[] {
  switch (turn.role) {
    case 'system':
      return turn.parts.flatMap((part) => words.text(part));
    case 'assistant':
      return turn.parts.flatMap((part) => words.assistantPart(part));
    case 'user':
      return turn.parts.flatMap((part) => words.userPart(part));
  }
}

/** An upstream that continues the last answer refuses one that ends with a space. */
function withoutLastSpace<Block extends Readonly<Record<string, unknown>>>(
  answer: Message<Block>,
): Message<Block> {
  const { role, content } = answer;
  const at = content.findLastIndex((block) => !('cachePoint' in block));
  const block = content[at];
  if (typeof block?.text !== 'string') return answer;
  return { role, content: content.with(at, { ...block, text: block.text.trimEnd() }) };
}
