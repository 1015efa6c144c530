import { strict as assert } from 'node:assert';
import { parseDocument } from 'yaml';
import { fieldsOf } from '../../core/json.ts';
import citeSources from './built-in/cite-sources.md' with { type: 'text' };
import jsonOnly from './built-in/json-only.md' with { type: 'text' };
import translate from './built-in/translate.md' with { type: 'text' };
import webSearch from './built-in/web-search.md' with { type: 'text' };
import type { Skill } from './skill.ts';

/** A skill file: Markdown with front matter. */
interface SkillFile {
  readonly name: string | undefined;
  readonly description: string | undefined;
  readonly instructions: string;
}

const fence = /^---[ \t]*\n([\s\S]*?)\n---[ \t]*(?:\n|$)/;

/** Reads a skill file. Ignores other fields of the front matter, which other tools use. */
export function readSkillFile(file: string): SkillFile {
  const text = file.replace(/^\ufeff/, '').replaceAll('\r\n', '\n');
  const [block = '', head = ''] = fence.exec(text) ?? [];
  const fields = readFields(head);
  return {
    name: textOf(fields.name),
    description: textOf(fields.description),
    instructions: text.slice(block.length).trim(),
  };
}

function readFields(head: string): Record<string, unknown> {
  const document = parseDocument(head);
  if (document.errors.length > 0) return {};
  // Without aliases, a small file can't expand to a huge one.
  return fieldsOf(document.toJS({ maxAliasCount: 0 }));
}

function textOf(field: unknown): string | undefined {
  return typeof field === 'string' ? field.trim() : undefined;
}

/** The built-in skills, by name. Imported, so that the executable includes them. */
export const builtInSkills: ReadonlyMap<string, Skill> = new Map(
  [citeSources, jsonOnly, translate, webSearch].map((file) => {
    const { name, description, instructions } = readSkillFile(file);
    assert(name && description && instructions, 'A built-in skill lacks its front matter.');
    return [name, { name, description, instructions }];
  }),
);
