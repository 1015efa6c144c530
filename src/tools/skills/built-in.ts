import { strict as assert } from 'node:assert';
import citeSources from './built-in/cite-sources.md' with { type: 'text' };
import jsonOnly from './built-in/json-only.md' with { type: 'text' };
import translate from './built-in/translate.md' with { type: 'text' };
import webSearch from './built-in/web-search.md' with { type: 'text' };
import { readSkillFile } from './front-matter.ts';
import type { Skill } from './skill.ts';

/** The skills that come with Tollgate, by name. Imported, so that an executable carries them. */
export const builtInSkills: ReadonlyMap<string, Skill> = new Map(
  [citeSources, jsonOnly, translate, webSearch].map((file) => {
    const { name, description, instructions } = readSkillFile(file);
    assert(name && description && instructions, 'A built-in skill lacks its front matter.');
    return [name, { name, description, instructions }];
  }),
);
