import type { Store } from '../store/open.ts';
import { builtInSkills } from '../tools/skills/built-in.ts';
import { SkillDesk } from '../tools/skills/skill-desk.ts';
import { SkillShelf } from '../tools/skills/skill-shelf.ts';

export type Skills = ReturnType<typeof makeSkills>;

/** The skills of all tenants: a desk to keep them at, a shelf to take them from. */
export function makeSkills({ skills: book }: Pick<Store, 'skills'>) {
  const shelf = new SkillShelf(book, builtInSkills);
  const desk = new SkillDesk({
    book,
    builtIn: builtInSkills,
    now: Date.now,
    changed: () => shelf.forget(),
  });
  return { shelf, desk };
}
