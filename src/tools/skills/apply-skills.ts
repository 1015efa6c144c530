import type { Skill } from './skill.ts';

/**
 * A system prompt with skills: the client's own words first, since the skills refer to the task
 * that those describe, then one block per skill in the order asked for.
 */
export function applySkills(system: string, skills: readonly Skill[]): string {
  if (skills.length === 0) return system;
  const blocks = skills.map(({ name, instructions }) => `# Skill: ${name}\n\n${instructions}`);
  return [system.trimEnd(), ...blocks].filter((part) => part !== '').join('\n\n');
}
