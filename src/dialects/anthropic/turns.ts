/** The messages of an Anthropic client as turns. */
import type {
  AssistantPart,
  DocumentPart,
  ImagePart,
  TextPart,
  ToolResultPart,
  Turn,
  UserPart,
} from '../../core/dialogue.ts';
import { fieldsOf, isText } from '../../core/json.ts';
import { cacheMark } from '../ask/cache-marks.ts';
import { type ForeignNames, wordsIn } from '../ask/foreign-names.ts';
import { type AnyBlock, type BlockOf, blocksIn, imageUrl, isKnown } from './blocks.ts';
import { isCustom } from './messages-request.ts';
import type { MessagesBody } from './messages-schema.ts';
import { addedTool } from './tool-changes.ts';

export function readTurns({ system, messages }: MessagesBody, foreign: ForeignNames): Turn[] {
  const turns: Turn[] = [];
  if (system) turns.push({ role: 'system', parts: blocksIn(system).flatMap(readText) });
  for (const [at, { role, content }] of messages.entries()) {
    const blocks = blocksIn(content ?? []);
    if (role === 'assistant') {
      turns.push({ role, parts: blocks.flatMap((block) => readAssistant(block, foreign)) });
    } else if (role === 'user') {
      const parts = blocks.flatMap((block) => readUser(block, foreign));
      if (parts.length === 0)
        foreign.lose(blocks, ({ type }) => type === 'text', `messages[${at}].content`);
      turns.push({ role, parts: resultsFirst(parts) });
    } else {
      turns.push({ role, parts: blocks.flatMap((block) => readInstruction(block, foreign)) });
    }
  }
  return turns;
}

/** A tool that the block defines is read together with the request's other tools. */
function readInstruction(block: AnyBlock, foreign: ForeignNames): readonly TextPart[] {
  if (block.type === 'text') return readText(block);
  const tool = addedTool(block);
  return tool && isCustom(tool) ? [] : leftOut(block, foreign);
}

function readText(block: AnyBlock): readonly TextPart[] {
  if (!isKnown(block) || block.type !== 'text') return [];
  return [{ kind: 'text', text: block.text, ...cacheMark(block) }];
}

function resultsFirst(parts: readonly UserPart[]): readonly UserPart[] {
  const results = parts.filter((part) => part.kind === 'tool_result');
  if (results.length === 0) return parts;
  return [...results, ...parts.filter((part) => part.kind !== 'tool_result')];
}

function readAssistant(block: AnyBlock, foreign: ForeignNames): readonly AssistantPart[] {
  if (!isKnown(block)) return readSummary(block) ?? leftOut(block, foreign);
  switch (block.type) {
    case 'text':
      return readText(block);
    case 'thinking': {
      const { thinking: text, signature } = block;
      return [{ kind: 'reasoning', text, signature: signature || undefined }];
    }
    case 'redacted_thinking':
      return [{ kind: 'reasoning', text: '', redacted: block.data }];
    case 'tool_use': {
      const { id, name, input } = block;
      const json = JSON.stringify(input);
      return [{ kind: 'tool_call', id, name, arguments: json, ...cacheMark(block) }];
    }
    default:
      return leftOut(block, foreign);
  }
}

function readUser(block: AnyBlock, foreign: ForeignNames): readonly UserPart[] {
  if (isKnown(block) && block.type === 'tool_result') return [readResult(block, foreign)];
  return readShown(block, foreign);
}

function readShown(block: AnyBlock, foreign: ForeignNames): readonly Shown[] {
  if (!isKnown(block)) {
    const told = readFoundTool(block) ?? readSearchResult(block) ?? readSummary(block);
    if (told !== undefined) return told;
    foreign.add(`messages.${block.type}`);
    return wordsIn(block);
  }
  switch (block.type) {
    case 'text':
      return readText(block);
    case 'image': {
      const url = imageUrl(block);
      if (url === undefined) return leftOut({ type: 'image.source.file' }, foreign);
      return [{ kind: 'image', url, ...cacheMark(block) }];
    }
    case 'document':
      return readDocument(block, foreign);
    default:
      return leftOut(block, foreign);
  }
}

/**
 * A tool that Claude Code's search for tools has found. For other upstreams the tool itself is in
 * the request already, so its name is enough; an empty result would mean that none was found.
 */
function readFoundTool(block: AnyBlock): readonly TextPart[] | undefined {
  const { type, tool_name: text } = fieldsOf(block);
  return type === 'tool_reference' && typeof text === 'string'
    ? [{ kind: 'text', text }]
    : undefined;
}

/** A passage to answer from: for other upstreams a document, named by its title and source. */
function readSearchResult(block: AnyBlock): readonly DocumentPart[] | undefined {
  const { type, title, source, content } = fieldsOf(block);
  if (type !== 'search_result' || !Array.isArray(content)) return undefined;
  const texts = content.map((inner) => fieldsOf(inner).text).filter(isText);
  const name = [title, source].filter(isText).join(', ') || undefined;
  return [{ kind: 'document', source: { text: texts.join('\n\n') }, name }];
}

/** Anthropic's summary of a long conversation, kept because the earlier messages may be gone. */
function readSummary(block: AnyBlock): readonly TextPart[] | undefined {
  const { type, content: text } = fieldsOf(block);
  return type === 'compaction' && isText(text) ? [{ kind: 'text', text }] : undefined;
}

function readResult(block: BlockOf<'tool_result'>, foreign: ForeignNames): ToolResultPart {
  const { content, tool_use_id: callId, is_error: isError } = block;
  return {
    kind: 'tool_result',
    callId,
    parts: blocksIn(content ?? []).flatMap((inner) => readShown(inner, foreign)),
    isError: isError === true,
    ...cacheMark(block),
  };
}

type Shown = TextPart | ImagePart | DocumentPart;

/** Other upstreams take a document as one text; pictures inside it follow as parts. */
function readDocument(block: BlockOf<'document'>, foreign: ForeignNames): readonly Shown[] {
  if (block.citations?.enabled) foreign.add('document.citations');
  if (block.context) foreign.add('document.context');
  const { source } = block;
  const inside =
    source.type === 'content'
      ? blocksIn(source.content).flatMap((inner) => readShown(inner, foreign))
      : [];
  const texts = inside.filter((part) => part.kind === 'text').map(({ text }) => text);
  const shown = inside.filter((part) => part.kind !== 'text');
  const name = block.title || undefined;
  if (shown.length > 0 && texts.length === 0 && name === undefined) return shown;
  const whole = source.type === 'content' ? { text: texts.join('\n\n') } : readSource(source);
  return [{ kind: 'document', source: whole, name, ...cacheMark(block) }, ...shown];
}

type Source = Exclude<BlockOf<'document'>['source'], { readonly type: 'content' }>;

function readSource(source: Source): DocumentPart['source'] {
  switch (source.type) {
    case 'base64':
      return { url: `data:${source.media_type};base64,${source.data}` };
    case 'url':
      return { url: source.url };
    case 'file':
      return { fileId: source.file_id };
    case 'text':
      return { text: source.data };
  }
}

/** Leaves a block out, and notes its type to tell the client. */
function leftOut({ type }: AnyBlock, foreign: ForeignNames): readonly [] {
  foreign.add(`messages.${type}`);
  return [];
}
