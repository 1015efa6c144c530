import { parseDocument } from 'yaml';
import { fieldsOf } from '../../core/json.ts';

/** A skill as a file: Markdown below a few fields between two lines of dashes. */
interface SkillFile {
  readonly name: string | undefined;
  readonly description: string | undefined;
  readonly instructions: string;
}

const fence = /^---[ \t]*\n([\s\S]*?)\n---[ \t]*(?:\n|$)/;

/** Fields besides name and description are left alone: files made for other tools have more. */
export function readSkillFile(file: string): SkillFile {
  const text = file.replace(/^\ufeff/, '').replaceAll('\r\n', '\n');
  const [whole = '', head = ''] = fence.exec(text) ?? [];
  const fields = readFields(head);
  return {
    name: textOf(fields.name),
    description: textOf(fields.description),
    instructions: text.slice(whole.length).trim(),
  };
}

function readFields(head: string): Record<string, unknown> {
  const document = parseDocument(head);
  if (document.errors.length > 0) return {};
  // Without aliases a small file cannot stand for a huge one.
  return fieldsOf(document.toJS({ maxAliasCount: 0 }));
}

function textOf(field: unknown): string | undefined {
  return typeof field === 'string' ? field.trim() : undefined;
}
