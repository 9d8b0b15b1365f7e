# fmt: off
"""Rules and later sentences, written without a look at the patterns and scored as a whole."""

from __future__ import annotations

CHANGED = (
    (
        "Never deploy to production on a Friday.",
        "Fridays are fine now for releases, we finally have proper rollback.",
    ),
    (
        "From now on always reply to me in British English.",
        "You can go back to American spelling, the London client is gone.",
    ),
    ("don't use emojis when you write to me", "I'm over the emoji thing, throw some in if you feel like it"),
    ("Always write out full words, no abbreviations please.", "go ahead and use abbreviations again"),
    (
        "Never book me on a flight before 9am.",
        "Early flights don't bother me anymore, since I moved close to the airport.",
    ),
    (
        "Always cc Martina on emails to the landlord.",
        "Martina no longer needs to be copied when you write to the landlord.",
    ),
    (
        "I'm vegetarian, so don't ever suggest recipes with meat.",
        "I've started eating chicken and beef again, so recipes with those are welcome.",
    ),
    ("From now on call me Dr. Hallam, not Pete.", "Pete is fine, drop the doctor stuff."),
    (
        "Never schedule meetings on Wednesday afternoons.",
        "My Wednesday afternoons have opened up, so feel free to put calls there.",
    ),
    (
        "Always use tabs for indentation in my code.",
        "We switched the repo over to four spaces, so forget about tabs.",
    ),
    (
        "Don't spend more than $50 on anything without asking me first.",
        "You don't have to check with me about purchases anymore, whatever the amount.",
    ),
    (
        "always sign my emails with 'Warm regards, Jo'",
        "the warm regards sign-off feels stuffy, just end with whatever fits",
    ),
    (
        "Please never put my mum's phone calls on the shared calendar.",
        "It's ok if calls with mum show up on the shared calendar, Dan knows about it all now.",
    ),
    (
        "From now on keep every answer under three sentences.",
        "Longer answers are okay again, I actually have time to read these days.",
    ),
    (
        "Don't order anything with peanuts, my son is allergic.",
        "Turns out Leo outgrew the allergy, peanuts are back on the menu!",
    ),
    (
        "Never push straight to main, always open a pull request.",
        "For this repo it's just me left, so committing to main directly is no problem.",
    ),
    ("Always quote prices in euros.", "Dollars would be just as good for prices from here on out."),
    (
        "don't be so formal with me, always keep it casual",
        "hmm I think I'd prefer a more formal tone after all",
    ),
    (
        "Never book the Hilton, I had a terrible stay there.",
        "I've made my peace with the Hilton, put it back in the options.",
    ),
    (
        "Remind me every morning at 7 to take my vitamin D.",
        "I'm done with the vitamin D, no need to nag me in the mornings.",
    ),
    (
        "Always add type hints to every Python function you write.",
        "Type hints are optional from here, I only care about them in the public API.",
    ),
    (
        "From now on no coffee suggestions after 2pm, I'm trying to sleep better.",
        "Sleep's great lately so an afternoon coffee is totally allowed.",
    ),
    ("Never mention my ex Caroline by name.", "You can say Caroline's name, we're friends again."),
    (
        "Always run the full test suite before you commit.",
        "The full suite takes ages these days, skip it unless I ask.",
    ),
    (
        "Don't email the accountant without showing me the draft first.",
        "I trust you with the accountant, just send those messages off without me looking.",
    ),
    (
        "Always book an aisle seat for me on trains.",
        "Window or aisle, I honestly couldn't care less where I sit on the train now.",
    ),
    (
        "never use semicolons in my JavaScript",
        "new team's linter insists on semicolons so yeah, put them in the JS",
    ),
    (
        "From now on put 30 minutes of buffer between all my appointments.",
        "The buffer between appointments isn't necessary anymore, back to back works.",
    ),
    (
        "Antworte mir bitte ab jetzt immer auf Deutsch.",
        "Du kannst mir ruhig wieder auf Englisch schreiben, die Deutschprüfung hab ich hinter mir.",
    ),
    (
        "Buch mir niemals Termine vor 10 Uhr.",
        "Frühe Termine sind mittlerweile kein Problem mehr, die Kinder gehen jetzt um acht aus dem Haus.",
    ),
    (
        "Ab sofort bitte immer siezen, auch in den Mails an Herrn Krause.",
        "Herr Krause und ich sind jetzt per Du, das Sie kannst du dir sparen.",
    ),
    (
        "Keine Rezepte mit Knoblauch, nie wieder!",
        "Knoblauch darf wieder rein, meine Freundin hat sich daran gewöhnt.",
    ),
    (
        "Überweise nie mehr als 200 Euro, ohne mich vorher zu fragen.",
        "Das mit der Rückfrage bei Überweisungen hat sich erledigt, mach einfach.",
    ),
    ("以后回复我一律用繁体字。", "简体也行了，繁体那个不用再坚持了。"),
    ("千万不要在周五晚上给我安排会议。", "周五晚上我现在有空了，开会可以排进去。"),
    ("点外卖永远不要放香菜。", "我最近居然爱上香菜了，外卖里放点也没关系。"),
    ("从现在起代码注释都要写英文。", "团队里都是中国人，注释写中文就好了。"),
    (
        "Nunca me reserves hoteles sin desayuno incluido.",
        "Lo del desayuno en el hotel ya me da igual, busca lo más barato.",
    ),
    (
        "A partir de ahora háblame siempre de usted.",
        "Oye, mejor tutéame, que lo de usted me hace sentir viejo.",
    ),
    (
        "N'envoie jamais de mails à mes clients le week-end.",
        "Pour les clients, tu peux écrire le samedi et le dimanche maintenant, ça ne gêne plus personne.",
    ),
    (
        "Always answer me in Dutch, even when I write in English.",
        "English replies are totally fine from here on, my Dutch exam is behind me.",
    ),
    (
        "Never deploy on Fridays.",
        "We've got proper rollbacks now so Friday deploys don't scare me anymore, go ahead whenever.",
    ),
    (
        "please don't send any email without showing me the draft first",
        "you can just fire off emails yourself now, I trust your drafts",
    ),
    (
        "Only book aisle seats for me.",
        "Honestly I've stopped caring about aisle vs window, take whatever seat is cheapest.",
    ),
    (
        "I'm vegetarian, so no meat in any recipe you suggest.",
        "So I started eating meat again last month, feel free to throw chicken in there.",
    ),
    (
        "Keep a formal tone with me at all times.",
        "You can loosen up, the formal thing was only while my boss was reading along.",
    ),
    ("Call me Dr. Whitfield, not Anna.", "Anna is fine, no need for the Dr. Whitfield stuff any longer."),
    (
        "Ask me before spending anything over $50.",
        "Raise it to 200 dollars, spending under that doesn't need my ok.",
    ),
    (
        "no meetings before 10am on my calendar ever",
        "Now that the kid's in school I can do early meetings, 8 is ok too.",
    ),
    (
        "Use tabs for indentation in all my Python code.",
        "The team voted for spaces, so forget what I said about tabs.",
    ),
    (
        "Don't ever mention my salary to anyone on the team.",
        "Salaries are public at our company since Monday, so mine's no secret to the team either.",
    ),
    ("Do not message me after 6pm.", "I'm on nights these days, message me at any hour you like."),
    (
        "always write a unit test for every function you add",
        "Tests aren't necessary for this prototype or anything after it, skip them.",
    ),
    (
        "Sign all my emails with 'Warm regards, Tom'.",
        "I'm kind of sick of that warm regards sign-off, just end my emails with nothing.",
    ),
    ("Never use emojis when you talk to me.", "lol an emoji here and there wouldn't kill me, go for it"),
    (
        "Whenever you order lunch for me, make sure it's gluten free.",
        "Doctor says it's not celiac after all!! Gluten is back on the menu.",
    ),
    (
        "Keep Wednesdays free, I don't want anything scheduled then.",
        "My Wednesday class got cancelled for good, so you can fill that day up like any other.",
    ),
    (
        "All prices should be shown in euros, please.",
        "I've moved to London, pounds make more sense to me than euros now.",
    ),
    (
        "Don't push straight to main, always open a pull request.",
        "Since it's just me on this repo, pull requests are overkill; committing directly is okay.",
    ),
    (
        "I want every answer in three sentences or less.",
        "You needn't keep answers that short anymore, longer ones help me more.",
    ),
    (
        "Never share my home address with vendors.",
        "Vendors can have the address if they need it for delivery, I'm no longer worried about it.",
    ),
    (
        "Book only Marriott hotels, I need the points.",
        "I let my Marriott status lapse, any decent hotel will do.",
    ),
    (
        "always cc Priya on anything you send to the client",
        "Priya left the account, no reason to keep cc'ing her.",
    ),
    (
        "Stop suggesting coffee places, I quit caffeine.",
        "I caved and I'm drinking coffee again, suggestions welcome.",
    ),
    (
        "Use British spelling in everything you write for me.",
        "Our readers are mostly American so let's drop the British spelling.",
    ),
    (
        "Leave weekends alone: no work reminders on Saturday or Sunday.",
        "I don't mind getting reminders on a Saturday these days.",
    ),
    (
        "Every commit message has to begin with the ticket number.",
        "We ditched Jira, so commit messages can start however you want.",
    ),
    (
        "Transfer 300 to my savings account at the start of each month.",
        "Money's tight, hold off on the savings transfers until I tell you otherwise.",
    ),
    (
        "Bitte antworte mir immer auf Deutsch.",
        "Du kannst ruhig auf Englisch antworten, Deutsch muss nicht mehr sein.",
    ),
    ("Sieze mich bitte grundsätzlich.", "Das Siezen können wir lassen, ich bin der Jens."),
    (
        "Keine Termine am Freitagnachmittag eintragen.",
        "Freitags arbeite ich wieder voll, da darfst du nachmittags auch Termine reinlegen.",
    ),
    (
        "Buche für mich nur Zugreisen, keine Flüge.",
        "Wenn es schneller geht, ist ein Flug inzwischen auch in Ordnung.",
    ),
    (
        "Schreib Kommentare im Code immer auf Englisch",
        "Im neuen Team sprechen alle Deutsch, also ist mir die Sprache der Kommentare jetzt egal.",
    ),
    ("以后所有回复都用繁体中文。", "不用再写繁体了，简体我看着更顺。"),
    ("晚上九点以后不要给我发消息。", "最近我睡得晚，九点以后发消息也没关系了。"),
    ("点外卖一律不要放辣。", "我现在能吃辣了，点外卖不用特意备注。"),
    ("每次发布到生产环境之前都必须先问我。", "发布生产环境你自己决定就行，不必每次都来问。"),
    (
        "No me reserves nunca hoteles sin desayuno incluido.",
        "Lo del desayuno ya me da igual, resérvame el hotel que salga mejor de precio.",
    ),
    ("Trátame siempre de usted.", "Oye, ya hay confianza, puedes dejar el usted y tutearme."),
    (
        "Ne mets jamais de réunion entre midi et 14 h.",
        "Tu peux désormais caler des réunions à midi, je déjeune plus tard.",
    ),
)
"""The later sentence takes the rule back, or part of it, in other words."""

UNCHANGED = (
    ("Never deploy on Friday.", "What did we deploy last Friday?"),
    ("Don't deploy anything without Priya's approval.", "The deploy on Thursday went fine, Priya was happy."),
    ("Always answer me in French.", "My sister just started French classes at the community college."),
    (
        "never use emojis in emails to clients",
        "which emoji is the one with the two hands, is that praying or a high five?",
    ),
    (
        "I don't eat pork, never suggest it.",
        "The neighbours are roasting a whole pork shoulder and the entire street smells of it.",
    ),
    (
        "Never book flights with a layover in Frankfurt.",
        "My flight from Frankfurt got in an hour late last night.",
    ),
    ("Always cc Tom on invoices.", "Tom's out sick this week, poor guy."),
    ("From now on call me Alex instead of Alexander.", "Do you know where the name Alexander comes from?"),
    ("Don't schedule anything on Mondays.", "Is next Monday a bank holiday in Ireland?"),
    ("Always use snake_case for variable names.", "Why does Java use camelCase for variable names anyway?"),
    (
        "Never spend more than 100 dollars without asking.",
        "I spent about 100 dollars on groceries today, crazy.",
    ),
    ("Keep your answers short, always.", "That meeting was anything but short, I nearly fell asleep."),
    ("Always sign my letters with 'Best, Nadia'.", "Can you find the letter I sent to the school in March?"),
    ("don't ever order sushi from Kyoto Garden", "Kyoto Garden put up a new sign, looks nice actually"),
    ("Never force-push to a shared branch.", "Somebody deleted my branch, can you see who it was?"),
    ("Remind me every Sunday to call grandma.", "Grandma told me the funniest story on Sunday."),
    ("Always give temperatures in Celsius.", "Who came up with Celsius, was he Swedish?"),
    (
        "From now on no swearing, my kids read along.",
        "The kids are at camp until Saturday and the house is so quiet.",
    ),
    ("Don't put dentist appointments on the work calendar.", "The dentist said I have two cavities, ugh."),
    ("Always write unit tests for new functions.", "How many unit tests failed in last night's run?"),
    (
        "Fang meine Mails nie mit „Sehr geehrte“ an.",
        "Gestern kam eine Mail vom Finanzamt, die war sieben Seiten lang.",
    ),
    (
        "Bestell mir nie wieder etwas bei Amazon.",
        "Das Paket von Amazon, das ich im Mai bekommen habe, lag beim Nachbarn.",
    ),
    ("以后不要在早上九点前给我打电话提醒。", "今天早上九点的地铁挤得要命。"),
    ("Nunca pidas comida picante para mí.", "¿Por qué la comida picante hace sudar?"),
    ("Réponds-moi toujours en tutoyant.", "Mon fils a appris à l'école quand il faut tutoyer ou vouvoyer."),
    (
        "Always reply to me in Spanish.",
        "My sister's Spanish class starts next Tuesday, she's pretty nervous.",
    ),
    (
        "Never deploy without running the migration check.",
        "How long did last night's deploy take in the end?",
    ),
    (
        "Don't send emails to customers before I approve them.",
        "Did the email from the landlord ever show up?",
    ),
    ("Always book window seats when I fly.", "What seat did I have on that Lisbon flight in March?"),
    (
        "I'm allergic to peanuts, never include them in recipes.",
        "My grandmother used to roast peanuts on the balcony every autumn.",
    ),
    (
        "Keep your tone casual with me, no corporate speak.",
        "Can you look at this cover letter and tell me if the tone is too pushy?",
    ),
    (
        "Call me Max, never Maximilian.",
        "There's a new guy at work who's also called Maximilian, it's confusing everybody.",
    ),
    (
        "ask me before paying any invoice above 500 euros",
        "the invoice from the plumber came to 180 euros, can you file it?",
    ),
    ("No meetings on Monday mornings.", "Monday's meeting went well, they liked the pitch."),
    ("Use snake_case for all variable names.", "Rename the variable in line 40, it's misspelled."),
    (
        "Don't share my phone number with anybody.",
        "My phone screen cracked again, any idea what a repair costs?",
    ),
    ("No work notifications after 7pm please.", "Why do notifications on the iPad show up twice?"),
    ("always add type hints to python functions", "is python 3.13 noticeably faster than 3.11?"),
    ("Keep replies short, two paragraphs max.", "Summarize the last paragraph of that contract for me."),
    ("Never use exclamation marks in my client letters.", "The client called again about the delivery date."),
    (
        "Only order from restaurants with vegan options.",
        "That restaurant on Elm Street closed down, such a shame.",
    ),
    ("Block out Thursday afternoons for deep work.", "Is it supposed to rain on Thursday?"),
    (
        "Show all temperatures in Celsius.",
        "What's the highest temperature ever measured in Spain, in Celsius?",
    ),
    (
        "Always open a pull request rather than pushing to main.",
        "Someone commented on my pull request, can you read it out to me?",
    ),
    (
        "don't mention my divorce in front of the kids' account",
        "the kids have a recital on the 14th, put it in",
    ),
    (
        "Back up the database before every schema change.",
        "The backup from Sunday is 14 GB, which is bigger than I expected.",
    ),
    ("Round all amounts in my budget sheet to whole dollars.", "I spent way over budget in Vegas, haha."),
    (
        "Don't use my middle name on any booking.",
        "Could you pull up the booking for the cabin and check when we have to leave?",
    ),
    ("Use metric units in all recipes.", "That lemon tart recipe was a hit, everybody asked for seconds."),
    ("Always put travel time between appointments.", "My dentist appointment ran forty minutes late today."),
    (
        "Write the release notes in plain language for non-engineers.",
        "The release slipped to next week because QA found a crash.",
    ),
    ("Never log customer names in plain text.", "Grab me the logs from around 3am, something restarted."),
    (
        "Put 10% of every freelance payment aside for tax.",
        "The tax office sent me a letter today, I'll scan it for you later.",
    ),
    ("Antworte mir bitte immer in Stichpunkten.", "Hat Frau Lehmann schon auf meine Anfrage geantwortet?"),
    ("Plane nie Termine vor neun Uhr ein.", "Wann war nochmal der Termin beim Zahnarzt?"),
    ("Bestell für mich nur Essen ohne Schweinefleisch.", "Das Essen gestern bei Markus war wirklich lecker."),
    (
        "Gib meine Adresse niemals an Dritte weiter.",
        "Kannst du mir die Adresse vom Baumarkt in Köln raussuchen?",
    ),
    ("Keine Deployments ohne mein Okay.", "Beim Deployment heute früh gab es drei Warnungen im Log."),
    ("订酒店的时候一定要选无烟房。", "上次那家酒店的早餐还挺不错的。"),
    ("代码注释全部用英文写。", "帮我看看这段代码为什么一直报错。"),
    ("周末不要给我安排会议。", "今天的会议开了整整三个小时，累死了。"),
    ("给客户的邮件语气要正式。", "客户明天几点到机场？"),
    (
        "Nunca pongas reuniones después de las cinco.",
        "La reunión de ayer se alargó muchísimo, ¿me pasas el acta?",
    ),
    ("Quiero que todos los gastos los apuntes en euros.", "¿Cuántos euros costó el billete a Sevilla?"),
    ("Réponds-moi toujours en français.", "Tu connais un bon film français à regarder ce soir ?"),
)
"""The later sentence is about the same subject and changes nothing."""
