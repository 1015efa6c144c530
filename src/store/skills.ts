import type { Selectable } from 'kysely';
import type { SkillBook, StoredSkill } from '../tools/skills/skill.ts';
import { OnDatabase, type StoreTransaction } from './database.ts';
import { tellingAll } from './directory/directory.ts';
import type { SkillsTable } from './schema.ts';

export class SqlSkills extends OnDatabase implements SkillBook {
  async list(tenantId: string): Promise<readonly Omit<StoredSkill, 'instructions'>[]> {
    const rows = await this.database.read
      .selectFrom('skills')
      .select(['tenant_id', 'name', 'description', 'created_at', 'updated_at'])
      .where('tenant_id', '=', tenantId)
      .orderBy('name')
      .execute();
    return rows.map(summaryOf);
  }

  async get(tenantId: string, name: string): Promise<StoredSkill | undefined> {
    const row = await this.database.read
      .selectFrom('skills')
      .selectAll()
      .where('tenant_id', '=', tenantId)
      .where('name', '=', name)
      .executeTakeFirst();
    return row && skillOf(row);
  }

  put(skill: StoredSkill, countMax: number): Promise<StoredSkill | undefined> {
    return tellingAll(this.database, async (change) => {
      if (!(await hasRoom(change, skill, countMax))) return undefined;
      const { tenantId, name, description, instructions, createdAt, updatedAt } = skill;
      const text = { description, instructions, updated_at: updatedAt };
      const row = await change
        .insertInto('skills')
        .values({ tenant_id: tenantId, name, created_at: createdAt, ...text })
        .onConflict((conflict) => conflict.columns(['tenant_id', 'name']).doUpdateSet(text))
        .returningAll()
        .executeTakeFirstOrThrow();
      return skillOf(row);
    });
  }

  remove(tenantId: string, name: string): Promise<boolean> {
    return tellingAll(this.database, async (change) => {
      const row = await change
        .deleteFrom('skills')
        .where('tenant_id', '=', tenantId)
        .where('name', '=', name)
        .returning('name')
        .executeTakeFirst();
      return row !== undefined;
    });
  }
}

async function hasRoom(
  change: StoreTransaction,
  { tenantId, name }: StoredSkill,
  countMax: number,
): Promise<boolean> {
  // Locks the tenant: two requests that count at once would both find room for the last skill.
  await change.selectFrom('tenants').select('id').where('id', '=', tenantId).forUpdate().execute();
  const { others } = await change
    .selectFrom('skills')
    .select((of) => of.fn.countAll<number>().as('others'))
    .where('tenant_id', '=', tenantId)
    .where('name', '!=', name)
    .executeTakeFirstOrThrow();
  return others < countMax;
}

function summaryOf(row: Omit<Selectable<SkillsTable>, 'instructions'>) {
  return {
    tenantId: row.tenant_id,
    name: row.name,
    description: row.description,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

function skillOf(row: Selectable<SkillsTable>): StoredSkill {
  return { ...summaryOf(row), instructions: row.instructions };
}
