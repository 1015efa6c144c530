/**
 * Bedrock's blocks translated to Anthropic's, which they resemble, so that one class tells both.
 */
import { type Fields, fieldsOf, isObject, objectsIn } from '../../core/json.ts';

/**
 * Bytes come as base64, and are kept as a text with one character for each byte. For an encrypted
 * thought, that text is what Anthropic itself sends as `data`.
 */
export function fromBase64(base64: string): string {
  return Buffer.from(base64, 'base64').toString('latin1');
}

export function toBase64(bytes: string): string {
  return Buffer.from(bytes, 'latin1').toString('base64');
}

/** A block of a whole answer. */
export function wholeBlock(content: Fields): Fields | undefined {
  const { text, toolUse, reasoningContent, citationsContent } = content;
  if (typeof text === 'string') return { type: 'text', text };
  if (isObject(toolUse)) return callBlock(toolUse);
  if (isObject(citationsContent)) return citedBlock(citationsContent);
  if (!isObject(reasoningContent)) return undefined;
  const { reasoningText, redactedContent } = reasoningContent;
  if (typeof redactedContent === 'string') {
    return { type: 'redacted_thinking', data: fromBase64(redactedContent) };
  }
  if (!isObject(reasoningText)) return undefined;
  return {
    type: 'thinking',
    thinking: reasoningText.text,
    signature: reasoningText.signature,
  };
}

/** An event about a block, as Anthropic's; undefined if it is empty or brings bytes. */
export function blockEvent({ contentBlockIndex: index, start, delta }: Fields): Fields | undefined {
  const { toolUse } = fieldsOf(start);
  const begun = isObject(toolUse) ? callBlock(toolUse) : thoughtBlock(fieldsOf(delta));
  if (begun) return { type: 'content_block_start', index, content_block: begun };
  const piece = blockDelta(fieldsOf(delta));
  return piece && { type: 'content_block_delta', index, delta: piece };
}

/**
 * Bedrock does not announce thoughts, so each piece is told as a beginning; it may have no words.
 */
function thoughtBlock({ reasoningContent }: Fields): Fields | undefined {
  const { text, signature } = fieldsOf(reasoningContent);
  const isSaid = text !== undefined || signature !== undefined;
  return isSaid ? { type: 'thinking', thinking: text, signature } : undefined;
}

function blockDelta({ text, toolUse, citation }: Fields): Fields | undefined {
  if (typeof text === 'string') return { type: 'text_delta', text };
  if (isObject(toolUse)) return { type: 'input_json_delta', partial_json: toolUse.input };
  if (isObject(citation)) return { type: 'citations_delta', citation: citationOf(citation) };
  return undefined;
}

/** Tools of Amazon's own, like its search of the web, are not the client's to run. */
function callBlock({ toolUseId, name, input, type }: Fields): Fields {
  const isTheirs = type === 'server_tool_use';
  return { type: isTheirs ? type : 'tool_use', id: toolUseId, name, input };
}

function citedBlock({ content, citations }: Fields): Fields {
  const texts = objectsIn(content).map(({ text }) => text);
  return {
    type: 'text',
    text: texts.join(''),
    citations: objectsIn(citations).map(citationOf),
  };
}

function citationOf({ title, location, sourceContent }: Fields): Fields {
  const web = fieldsOf(fieldsOf(location).web);
  const [quoted] = objectsIn(sourceContent);
  return { url: web.url, title, cited_text: quoted?.text };
}
